//! The rules of the house that a program can see: which module may use which, how long a file may
//! be, where `unsafe` may stand and what must stand beside it.
//!
//! Each rule is a function from text to complaints, and each is shown to complain.

#[path = "house_rules/documents.rs"]
mod documents;
#[path = "house_rules/imports.rs"]
mod imports;
#[path = "house_rules/kinds.rs"]
mod kinds;
#[path = "house_rules/names.rs"]
mod names;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use imports::{imports, reached};

/// A module may use those above it in this list, never those below; `error` may be used by all that
/// do I/O. `codec`, `escaped` and `sys` know nothing of the store.
const ORDER: [&[&str]; 15] = [
    &["codec", "escaped", "sys"],
    &["hash", "sizing"],
    &["page"],
    &["file", "memtable"],
    &["wal"],
    &["shm"],
    &["config"],
    &["storefile"],
    &["generation", "prefetch"],
    &["page_io"],
    &["bloom", "fingerprint"],
    &["filter"],
    &["engine"],
    &["api"],
    &["fuzzing", "stages", "testing"],
];

/// The rooms of `src/engine`: each may use those above it in this list, never those below.
const ROOMS: [&str; 9] = [
    "view",
    ENGINE,
    "read",
    "checkpoint",
    "write",
    "open",
    "backup",
    "check",
    "merge",
];
/// The room of the files that lie in `src/engine` itself.
const ENGINE: &str = "the engine";

const LONGEST_FILE: usize = 500;
const LARGEST_FOLDER: usize = 25;
const LONGEST_FUNCTION: usize = 60;
/// Files that may import each other in a circle.
const LARGEST_CIRCLE: usize = 4;

/// Functions that are longer, and why they are not split.
const LONG_FUNCTIONS: [(&str, &str, &str); 2] = [
    (
        "keys/src/url/tests.rs",
        "facts_of_the_standard",
        "one table of facts, in the order of the standard",
    ),
    (
        "cli/src/input/read_ahead.rs",
        "what_is_read_ahead_comes_in_its_turn",
        "one story, told in order",
    ),
];

/// Where `unsafe` may stand: in the library's own place for it, and where the library is measured
/// against others. Two of those are writable maps, because that is their fault. The command has the
/// word as an argument of a library's, to look at its standard output before `main`, and in its allocator.
const UNSAFE: [&str; 5] = [
    "src/sys/",
    "benches/src/mapped.rs",
    "peers/src/sys.rs",
    "cli/src/process/at_start.rs",
    "cli/src/process/memory/allocator.rs",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files of the repository with their text, by path from its root.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = [
        "src", "cli", "keys", "tests", "benches", "fuzz", "peers", "python",
    ]
    .iter()
    .map(|name| root().join(name))
    .filter(|path| path.is_dir())
    .collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap();
                let name = name.to_string_lossy().replace('\\', "/");
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(found.len() > 40, "too few sources found: {}", found.len());
    found
}

/// Runs a rule over all sources.
fn assert_holds(rule: fn(&str, &str) -> Vec<String>) {
    let complaints: Vec<_> = sources()
        .iter()
        .flat_map(|(path, text)| rule(path, text))
        .collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// The module of the library that a file belongs to.
fn module(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("src/")?;
    let name = rest.split('/').next()?;
    Some(name.strip_suffix(".rs").unwrap_or(name))
}

fn level(module: &str) -> Option<usize> {
    ORDER.iter().position(|level| level.contains(&module))
}

fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.starts_with("//"))
}

fn arrows_go_one_way(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let Some(from) = module(path) else {
        return complaints;
    };
    let Some(own) = level(from) else {
        return complaints;
    };
    for (number, line) in code_lines(text) {
        for used in line.split("crate::").skip(1) {
            let end = used.find(|c: char| !c.is_alphanumeric() && c != '_');
            let used = &used[..end.unwrap_or(used.len())];
            let allowed = match level(used) {
                // Rigs' options are for tests, and for doors of the same kind.
                Some(_) if used == "testing" => is_of_tests(path, text, number) || own > 13,
                Some(level) => used == from || level < own,
                None => used != "error" || own >= 3,
            };
            if !allowed {
                complaints.push(format!("{path}:{number}: {from} may not use {used}"));
            }
        }
    }
    complaints
}

/// Whether a line is in the tests of a file, or in a file of tests.
fn is_of_tests(path: &str, text: &str, number: usize) -> bool {
    const FILES: [&str; 3] = ["/tests.rs", "overtaken.rs", "/one_fingerprint/"];
    let before = text.lines().take(number);
    FILES.iter().any(|file| path.contains(file))
        || before
            .into_iter()
            .any(|line| line.starts_with("#[cfg(") && line.contains("test"))
}

/// The room of the engine that a file belongs to.
fn room(path: &str) -> Option<usize> {
    let rest = path.strip_prefix("src/engine/")?;
    let name = rest.split_once('/').map_or(ENGINE, |(name, _)| name);
    ROOMS.iter().position(|room| *room == name)
}

/// The room that a path of an import, from `crate::engine::` on, leads to.
fn room_used(path: &str) -> Option<usize> {
    let name = path.split("::").next().unwrap_or("");
    let room = ROOMS.iter().position(|room| *room == name);
    room.or_else(|| ROOMS.iter().position(|room| *room == ENGINE))
}

fn rooms_import_downward(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let Some(own) = room(path) else {
        return complaints;
    };
    for (number, line) in code_lines(text) {
        for used in line.split("crate::engine::").skip(1) {
            if room_used(used).is_none_or(|used| used > own) {
                complaints.push(format!(
                    "{path}:{number}: {} reaches up: {line}",
                    ROOMS[own]
                ));
            }
        }
    }
    complaints
}

fn the_engine_is_opened_up_in_its_room_alone(path: &str, text: &str) -> Vec<String> {
    let outside = path.starts_with("src/") && path != "src/engine/mod.rs";
    let lines = code_lines(text).filter(|(_, line)| outside && line.starts_with("impl Engine"));
    lines
        .map(|(number, _)| format!("{path}:{number}: borrow the parts of the engine instead"))
        .collect()
}

/// Of the library and the command, as `rustfmt` lays functions out.
fn functions_are_short(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if !["src/", "cli/src/", "keys/src/", "python/src/"]
        .iter()
        .any(|place| path.starts_with(place))
    {
        return complaints;
    }
    let lines: Vec<_> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let Some((before, rest)) = line.split_once("fn ") else {
            continue;
        };
        let words = before.trim_start();
        if ![
            "",
            "pub ",
            "pub(crate) ",
            "pub(super) ",
            "const ",
            "unsafe ",
        ]
        .contains(&words)
        {
            continue;
        }
        let end = format!("{}}}", &before[..before.len() - words.len()]);
        let body = lines[number..].iter().position(|line| **line == end);
        let length = body.map_or(0, |last| last + 1);
        let name = &rest[..rest.find(['(', '<']).unwrap_or(rest.len())];
        let known = LONG_FUNCTIONS
            .iter()
            .any(|(file, function, _)| (*file, *function) == (path, name));
        if length > LONGEST_FUNCTION && !known && !line.trim_end().ends_with([';', '}']) {
            complaints.push(format!("{path}:{}: {name} has {length} lines", number + 1));
        }
    }
    complaints
}

fn files_are_short(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    if lines <= LONGEST_FILE {
        return Vec::new();
    }
    vec![format!("{path}: {lines} lines; split it by idea")]
}

fn unsafe_is_in_its_place_and_says_why(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    // This file names the word in its rules.
    if path == "tests/house_rules.rs" {
        return complaints;
    }
    let lines: Vec<_> = text.lines().collect();
    for (number, line) in code_lines(text) {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if !words.any(|word| word == "unsafe") {
            continue;
        }
        if !UNSAFE.iter().any(|place| path.starts_with(place)) {
            complaints.push(format!("{path}:{number}: unsafe outside of {UNSAFE:?}"));
            continue;
        }
        let above = lines[..number - 1].iter().rev();
        let mut comment = above.take_while(|line| line.trim().starts_with("//"));
        if !comment.any(|line| line.contains("SAFETY:")) {
            complaints.push(format!("{path}:{number}: unsafe without its SAFETY reason"));
        }
    }
    complaints
}

fn nothing_is_left_unfinished_or_unasserted(path: &str, text: &str) -> Vec<String> {
    if path == "tests/house_rules.rs" {
        return Vec::new();
    }
    let marks = ["todo!(", "unimplemented!(", "dbg!(", "#[allow", "#![allow"];
    let mut complaints = Vec::new();
    for (number, line) in code_lines(text) {
        if marks.iter().any(|mark| line.contains(mark)) {
            complaints.push(format!("{path}:{number}: {line}"));
        }
        if line.starts_with("matches!(") && line.ends_with(");") {
            complaints.push(format!("{path}:{number}: a matches! that asserts nothing"));
        }
        if line.starts_with("#[ignore]") {
            complaints.push(format!("{path}:{number}: ignored without a reason"));
        }
    }
    complaints
}

#[test]
fn the_arrows_go_one_way() {
    assert_holds(arrows_go_one_way);
    let bad = arrows_go_one_way("src/page/mod.rs", "use crate::engine::Engine;");
    assert_eq!(bad, ["src/page/mod.rs:1: page may not use engine"]);
    let bad = arrows_go_one_way("src/sys/map.rs", "let e = crate::error::Error::Closed;");
    assert_eq!(bad, ["src/sys/map.rs:1: sys may not use error"]);
    let good = arrows_go_one_way("src/wal/mod.rs", "use crate::file::Layer;");
    assert!(good.is_empty());
    let testing = "use crate::testing::Options;";
    assert_eq!(arrows_go_one_way("src/engine/mod.rs", testing).len(), 1);
    let in_tests = format!("#[cfg(test)]\nmod tests {{\n{testing}");
    assert!(arrows_go_one_way("src/engine/mod.rs", &in_tests).is_empty());
}

#[test]
fn every_module_has_its_place_in_the_order() {
    for (path, _) in sources() {
        if let Some(module) = module(&path) {
            let known = level(module).is_some() || matches!(module, "lib" | "error");
            assert!(known, "{path}: name it in ORDER");
        }
    }
}

#[test]
fn rooms_of_the_engine_use_those_above_them() {
    assert_holds(rooms_import_downward);
    let up = "use crate::engine::write::guard::WriteGuard;";
    assert_eq!(rooms_import_downward("src/engine/view/mod.rs", up).len(), 1);
    assert!(rooms_import_downward("src/engine/open/create.rs", up).is_empty());
    let whole = "use crate::engine::Engine;";
    assert_eq!(
        rooms_import_downward("src/engine/view/mod.rs", whole).len(),
        1
    );
    assert!(rooms_import_downward("src/engine/read/mod.rs", whole).is_empty());
    for (path, _) in sources() {
        let known = !path.starts_with("src/engine/");
        assert!(
            known || room(&path).is_some(),
            "{path}: name its room in ROOMS"
        );
    }
}

#[test]
fn only_its_own_room_implements_the_engine() {
    assert_holds(the_engine_is_opened_up_in_its_room_alone);
    let text = "impl Engine {";
    assert!(the_engine_is_opened_up_in_its_room_alone("src/engine/mod.rs", text).is_empty());
    assert_eq!(
        the_engine_is_opened_up_in_its_room_alone("src/engine/read/point.rs", text).len(),
        1
    );
}

#[test]
fn few_files_import_each_other_in_a_circle() {
    let graph = imports();
    let from_api = reached(&graph, "api::store");
    assert!(
        from_api.contains("sys::storage"),
        "imports are not understood"
    );
    for file in graph.keys() {
        let circle: Vec<_> = reached(&graph, file)
            .into_iter()
            .filter(|other| reached(&graph, other).contains(file.as_str()))
            .collect();
        assert!(circle.len() <= LARGEST_CIRCLE, "{circle:?}");
    }
}

#[test]
fn no_function_is_long() {
    assert_holds(functions_are_short);
    let long = format!(
        "    fn a(&self) {{\n{}    }}\n",
        "        b();\n".repeat(59)
    );
    assert_eq!(
        functions_are_short("src/a.rs", &long),
        ["src/a.rs:1: a has 61 lines"]
    );
    assert!(functions_are_short("src/a.rs", &long.replacen("b();\n", "", 1)).is_empty());
}

#[test]
fn no_folder_is_crowded() {
    let mut folders = BTreeMap::new();
    for (path, _) in sources() {
        let (folder, _) = path.rsplit_once('/').unwrap();
        *folders.entry(folder.to_owned()).or_insert(0) += 1;
    }
    let crowded = folders.iter().filter(|(_, files)| **files > LARGEST_FOLDER);
    let crowded: Vec<_> = crowded.collect();
    assert!(crowded.is_empty(), "{crowded:?}");
}

#[test]
fn no_file_is_long() {
    assert_holds(files_are_short);
    let long = "\n".repeat(LONGEST_FILE + 1);
    assert_eq!(files_are_short("src/a.rs", &long).len(), 1);
}

#[test]
fn unsafe_stands_in_its_place_with_its_reason() {
    assert_holds(unsafe_is_in_its_place_and_says_why);
    let block = "let a = unsafe { b() };";
    assert_eq!(
        unsafe_is_in_its_place_and_says_why("src/page/a.rs", block).len(),
        1
    );
    assert_eq!(
        unsafe_is_in_its_place_and_says_why("src/sys/a.rs", block).len(),
        1
    );
    let reasoned = format!("// SAFETY: because.\n// And so.\n{block}");
    assert!(unsafe_is_in_its_place_and_says_why("src/sys/a.rs", &reasoned).is_empty());
    let others = [
        "cli/src/a.rs",
        "src/engine/a.rs",
        "benches/src/a.rs",
        "peers/src/a.rs",
    ];
    for (path, text) in others
        .map(|path| (path, &*reasoned))
        .into_iter()
        .chain([("peers/src/sys.rs", block)])
    {
        assert_eq!(
            unsafe_is_in_its_place_and_says_why(path, text).len(),
            1,
            "{path}"
        );
    }
}

#[test]
fn nothing_is_unfinished() {
    assert_holds(nothing_is_left_unfinished_or_unasserted);
    for bad in [
        "todo!()",
        "matches!(a, B);",
        "#[allow(dead_code)]",
        "#[ignore]",
    ] {
        assert_eq!(
            nothing_is_left_unfinished_or_unasserted("src/a.rs", bad).len(),
            1
        );
    }
}

/// What a newcomer reads first is there, and nothing in it leads to this machine.
#[test]
fn documents_are_there_and_name_no_machine() {
    let pages = [
        "README.md",
        "CHANGELOG.md",
        "docs/architecture.md",
        "docs/design.md",
        "docs/performance.md",
        "docs/python.md",
        "cli/README.md",
        "python/README.md",
    ];
    for name in pages.into_iter().chain(documents::FORMAT) {
        let text = std::fs::read_to_string(Path::new(&root()).join(name)).unwrap();
        assert!(!text.is_empty(), "{name} is empty");
        for local in ["/work/", "/root/", "/home/"] {
            assert!(!text.contains(local), "{name} names {local}");
        }
    }
}
