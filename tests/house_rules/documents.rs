//! docs/design.md and the code point to each other, docs/architecture.md points to the code, and the code to FORMAT.md.

use super::{root, sources};

/// The pages that name files of the code, and where their paths may begin.
const GUIDES: [(&str, &[&str]); 2] = [
    ("docs/design.md", &["src", "src/engine", ""]),
    (
        "docs/architecture.md",
        &[
            "src",
            "src/sys",
            "python/src",
            "capi/src",
            "server/src",
            "cli/src/pipeline",
            "",
        ],
    ),
];

/// FORMAT.md and its further pages.
pub(super) const FORMAT: [&str; 5] = [
    "FORMAT.md",
    "docs/format/deltas.md",
    "docs/format/dumps.md",
    "docs/format/invariants.md",
    "docs/format/seen-sets.md",
];

/// Returns what stands between each `before` and the next `after`.
fn between<'t>(text: &'t str, before: &'t str, after: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(before)
        .skip(1)
        .filter_map(move |rest| rest.split_once(after).map(|(found, _)| found))
}

/// Returns the source files that a text names in code spans.
fn files_in(text: &str) -> Vec<&str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.filter(|span| span.ends_with(".rs")).collect()
}

#[test]
fn files_that_the_guides_name_exist() {
    assert_eq!(files_in("a `b/c.rs` d.rs `e` `f.rs`"), ["b/c.rs", "f.rs"]);
    for (page, roots) in GUIDES {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        // What is drawn has no code spans.
        let text: String = text.split("```").step_by(2).collect();
        let files = files_in(&text);
        assert!(files.len() > 50, "too few files found: {}", files.len());
        for file in files {
            let is_there = |from| root().join(from).join(file).is_file();
            let exists = roots.iter().any(is_there);
            assert!(exists, "{page} names {file}, which is not there");
        }
    }
}

#[test]
fn reasons_that_the_code_refers_to_exist() {
    let design = std::fs::read_to_string(root().join("docs/design.md")).unwrap();
    let has = |section: &str| {
        let mut headings = design.lines().filter(|line| line.starts_with("##"));
        headings.any(|line| line.trim_start_matches(['#', ' ']) == section)
    };
    assert!(!has("No such section"));
    let mut links = 0;
    for (path, text) in sources() {
        // A reference may go on in the next line of a comment.
        let joined = text.replace("\n//! ", " ").replace("\n/// ", " ");
        for section in between(&joined, "docs/design.md, \"", "\"") {
            links += 1;
            assert!(
                has(section),
                "{path}: docs/design.md has no section {section:?}"
            );
        }
    }
    assert!(links > 3, "too few links found: {links}");
}

/// Comments refer to FORMAT.md and its further pages by the names of their sections.
#[test]
fn every_section_of_the_format_that_code_refers_to_exists() {
    let mut links = 0;
    for page in FORMAT {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let has = |section: &str| {
            let mut headings = text.lines().filter(|line| line.starts_with('#'));
            headings.any(|line| line.trim_start_matches(['#', ' ']) == section)
        };
        assert!(!has("No such section"));
        for (path, source) in sources() {
            let joined = source.replace("\n//! ", " ").replace("\n/// ", " ");
            for section in between(&joined, &format!("{page}, \""), "\"") {
                links += 1;
                assert!(has(section), "{path}: {page} has no section {section:?}");
            }
        }
    }
    assert!(links > 40, "too few links found: {links}");
}

/// FORMAT.md leads to each of its further pages, and each of them back.
#[test]
fn the_pages_of_the_format_are_linked() {
    let folder = std::fs::read_dir(root().join("docs/format")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<_> = names.map(|name| format!("docs/format/{name}")).collect();
    pages.sort_unstable();
    assert_eq!(pages, FORMAT[1..]);
    let format = std::fs::read_to_string(root().join("FORMAT.md")).unwrap();
    for page in pages {
        assert!(format.contains(&format!("]({page})")), "{page}");
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        assert!(text.contains("](../../FORMAT.md)"), "{page}");
    }
}
