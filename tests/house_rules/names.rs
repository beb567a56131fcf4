//! Constants bear names of their own: who searches for one finds one.

use std::collections::BTreeMap;

use super::sources;

/// Names that several constants of one crate share, and why.
const SHARED_NAMES: [(&str, &str); 3] = [
    ("_", "assertions"),
    ("EXAMPLES", "one for each subcommand's help"),
    (
        "PAGE_BYTES",
        "of type u64 where files are measured, usize where arrays are",
    ),
];

/// The constants of a crate's modules, as `rustfmt` lays them out, that have the name of another one. Those of types,
/// functions and test modules are not looked at: they are read beside what they belong to.
fn shared_names<'a>(sources: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, text) in sources {
        for line in text.lines() {
            let rest = line.strip_prefix("pub").unwrap_or(line);
            let rest = rest.split_once(") ").map_or(rest, |(scope, rest)| {
                if scope.starts_with('(') { rest } else { line }
            });
            if let Some((name, _)) = rest
                .trim_start()
                .strip_prefix("const ")
                .filter(|_| !line.starts_with(' '))
                .and_then(|rest| rest.split_once(':'))
            {
                found.entry(name).or_default().push(path);
            }
        }
    }
    found.retain(|name, paths| {
        paths.len() > 1 && SHARED_NAMES.iter().all(|(known, _)| known != name)
    });
    let several = found.iter();
    several
        .map(|(name, paths)| format!("{name} is in {}", paths.join(", ")))
        .collect()
}

#[test]
fn constants_have_names_of_their_own() {
    let sources = sources();
    for root in ["src/", "cli/src/"] {
        let files = sources.iter().filter(|(path, _)| path.starts_with(root));
        let files =
            files.filter(|(path, _)| !path.contains("/tests") && !path.ends_with("loom.rs"));
        let shared = shared_names(files.map(|(path, text)| (&**path, &**text)));
        assert!(shared.is_empty(), "{}", shared.join("\n"));
    }
    let two = [
        "const A: u8 = 1;\nconst _: () = ();",
        "pub(crate) const A: i8 = 2;",
    ];
    let two = ["a.rs", "b.rs"].into_iter().zip(two);
    assert_eq!(shared_names(two.clone()), ["A is in a.rs, b.rs"]);
    let inner = [
        ("c.rs", "    const A: u8 = 1;"),
        (
            "d.rs",
            "pub const EXAMPLES: u8 = 1;\nconst EXAMPLES: u8 = 1;",
        ),
    ];
    assert!(shared_names(two.take(1).chain(inner)).is_empty());
}
