//! Which file of the library imports which.

use std::collections::{BTreeMap, BTreeSet};

use super::{code_lines, sources};

/// The files of the library that each file imports, by module path. Tests within files don't count.
pub fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let module = |path: &str| {
        let path = path.strip_prefix("src/")?.strip_suffix(".rs")?;
        let path = path.strip_suffix("/mod").unwrap_or(path);
        Some(path.replace('/', "::"))
    };
    let sources = sources();
    let known: BTreeSet<_> = sources
        .iter()
        .filter_map(|(path, _)| module(path))
        .collect();
    let mut graph = BTreeMap::new();
    for (path, text) in &sources {
        let Some(own) = module(path) else { continue };
        let parent = own.rsplit_once("::").map_or("", |(parent, _)| parent);
        let text = text.split("#[cfg(test)]").next().unwrap_or("");
        let code: Vec<_> = code_lines(text).map(|(_, line)| line).collect();
        let mut used = BTreeSet::new();
        for import in code.join(" ").split("use ").skip(1) {
            let import = import.split(';').next().unwrap_or("").replace(' ', "");
            let (base, items) = import.split_once('{').unwrap_or((&import, ""));
            for item in items.trim_end_matches('}').split(',') {
                let full = format!("{base}{item}");
                let full = match (full.strip_prefix("crate::"), full.strip_prefix("super::")) {
                    (Some(rest), _) => rest.to_owned(),
                    (None, Some(rest)) => format!("{parent}::{rest}"),
                    (None, None) => continue,
                };
                let mut found = full.trim_start_matches("::");
                while !known.contains(found) && found.contains("::") {
                    found = found.rsplit_once("::").map_or("", |(rest, _)| rest);
                }
                if known.contains(found) && found != own {
                    used.insert(found.to_owned());
                }
            }
        }
        graph.insert(own, used);
    }
    graph
}

/// All that can be reached from a file by imports.
pub fn reached<'a>(graph: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = graph[from].iter().map(String::as_str).collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(graph.get(next).into_iter().flatten().map(String::as_str));
        }
    }
    found
}
