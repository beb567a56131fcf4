//! `docs/c.md` has all of the API, and its example works.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::{CAPI, Linked, compiled, found, read, run};

fn page() -> String {
    read(&Path::new(CAPI).join("../docs/c.md"))
}

#[test]
fn the_example_of_the_page_works() {
    let page = page();
    let (_, rest) = page.split_once("```c\n").unwrap();
    let (code, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("page.c");
    std::fs::write(&source, code).unwrap();
    let program = compiled(
        &["cc", "-std=c11"],
        &[&source],
        Linked::Shared,
        folder.path(),
    );
    let mut command = found(&program);
    let printed = run(command.current_dir(folder.path()));
    assert_eq!(printed, "1 of 3 keys are new, commit 1\n");
    let again: &mut Command = &mut found(&program);
    assert_eq!(
        run(again.current_dir(folder.path())),
        "0 of 3 keys are new, commit 2\n"
    );
}

/// Returns the words of a text that name something of Everseen's.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let ours = |word: &&str| word.starts_with("everseen_") || word.starts_with("EVERSEEN_");
    // Such as `EVERSEEN_KIND_…`.
    words
        .filter(ours)
        .filter(|word| !word.ends_with('_'))
        .collect()
}

#[test]
fn the_page_names_what_the_header_has_and_nothing_else() {
    let header = read(&Path::new(CAPI).join("include/everseen.h"));
    let page = page();
    let mut known = names(&header);
    // Its guard, and the variable with which a test writes it.
    assert!(known.remove("EVERSEEN_H") && known.remove("EVERSEEN_WRITE"));
    // The version of symbols.
    let mut named = names(&page);
    assert!(named.remove("EVERSEEN_0"));
    assert_eq!(named, known);
}

#[test]
fn errors_have_the_numbers_of_the_header() {
    let header = read(&Path::new(CAPI).join("include/everseen.h"));
    let defines = header.lines().filter_map(|line| {
        let (name, number) = line.strip_prefix("#define ")?.split_once(' ')?;
        name.starts_with("EVERSEEN_ERROR_")
            .then(|| (name.to_owned(), number.to_owned()))
    });
    let page = page();
    let rows = page.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let (number, _) = rest.split_once(" | ")?;
        name.starts_with("EVERSEEN_ERROR_")
            .then(|| (name.to_owned(), number.to_owned()))
    });
    assert_eq!(rows.collect::<Vec<_>>(), defines.collect::<Vec<_>>());
}
