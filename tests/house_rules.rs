//! The rules of the house that a program can see: which module may use which, how long a file may
//! be, where `unsafe` may stand and what must stand beside it.
//!
//! Each rule is a function from text to complaints, and each is shown to complain.

#[path = "house_rules/arrows.rs"]
mod arrows;
#[path = "house_rules/documents.rs"]
mod documents;
#[path = "house_rules/imports.rs"]
mod imports;
#[path = "house_rules/kinds.rs"]
mod kinds;
#[path = "house_rules/names.rs"]
mod names;
#[path = "house_rules/sizes.rs"]
mod sizes;

use std::path::{Path, PathBuf};

/// Where `unsafe` may stand: in the library's own place for it, and where the library is measured
/// against others. Two of those are writable maps, because that is their fault. The command has the
/// word as an argument of a library's, to look at its standard output before `main`, and in its allocator.
/// C's pointers are followed in one file, and C's functions are called as C calls them where that is measured.
/// The server sets two numbers of the C library's allocator.
const UNSAFE: [&str; 8] = [
    "src/sys/",
    "benches/src/mapped.rs",
    "peers/src/sys.rs",
    "cli/src/process/at_start.rs",
    "cli/src/process/memory/allocator.rs",
    "capi/src/border.rs",
    "capi/benches/batches.rs",
    "server/src/sys.rs",
];

/// What gives a function its name in C. No two may have one name: `capi/tests` compares all of them with the header.
const EXPORTED: &str = "#[unsafe(no_mangle)]";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All Rust files of the repository with their text, by path from its root.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = [
        "src", "cli", "keys", "tests", "benches", "fuzz", "peers", "python", "capi", "server",
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

fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.starts_with("//"))
}

fn unsafe_is_in_its_place_and_says_why(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    // The rules name the word.
    if path.starts_with("tests/house_rules") {
        return complaints;
    }
    let lines: Vec<_> = text.lines().collect();
    for (number, line) in code_lines(text) {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if !words.any(|word| word == "unsafe") {
            continue;
        }
        if line == EXPORTED && path.starts_with("capi/src/") {
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
    if path.starts_with("tests/house_rules") {
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
        if line.starts_with("#[test]") && path.starts_with("benches/src/bin/") {
            complaints.push(format!(
                "{path}:{number}: benches/Cargo.toml runs no test of it"
            ));
        }
    }
    complaints
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
        "capi/src/a.rs",
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
    assert!(unsafe_is_in_its_place_and_says_why("capi/src/a.rs", EXPORTED).is_empty());
    assert_eq!(
        unsafe_is_in_its_place_and_says_why("src/engine/a.rs", EXPORTED).len(),
        1
    );
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
    let measuring = nothing_is_left_unfinished_or_unasserted("benches/src/bin/a.rs", "#[test]");
    assert_eq!(measuring.len(), 1);
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
        "docs/c.md",
        "docs/server.md",
        "docs/python.md",
        "cli/README.md",
        "python/README.md",
        "server/README.md",
    ];
    for name in pages.into_iter().chain(documents::FORMAT) {
        let text = std::fs::read_to_string(Path::new(&root()).join(name)).unwrap();
        assert!(!text.is_empty(), "{name} is empty");
        for local in ["/work/", "/root/", "/home/"] {
            assert!(!text.contains(local), "{name} names {local}");
        }
    }
}
