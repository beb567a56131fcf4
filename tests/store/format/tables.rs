//! The tables themselves: no gaps, no overlaps, and an end where the prose says.

use super::doc::{Layout, path, section, table};

/// Sections with a table of bytes, and where their fields of fixed place end.
const TABLES: [(&str, usize); 22] = [
    ("Header", 256),
    ("Superblocks", 320),
    ("Layer entry", 64),
    ("Directory entry", 64),
    ("Run table", 16),
    ("Run", 104),
    ("Section entry", 32),
    ("Sections", 8),
    ("Writer entry", 16),
    ("Intents", 64),
    ("Pages", 4096),
    ("Pages of fingerprints", 28),
    ("Segment entry", 40),
    ("Page of the directory", 16),
    ("Page of fences", 16),
    ("Journal", 64),
    ("The log", 64),
    ("Log records", 24),
    ("Commit payload", 24),
    ("Cut payload", 72),
    ("Copy mark", 96),
    ("Deltas", 96),
];

#[test]
fn tables_have_no_gaps_and_end_where_they_should() {
    for (name, end) in TABLES {
        let layout = Layout::of(name);
        assert!(
            layout.complaints().is_empty(),
            "{name}: {:?}",
            layout.complaints()
        );
        assert_eq!(layout.end(), end, "{name}");
    }
    let file = Layout::of("The whole file");
    assert!(file.complaints().is_empty(), "{:?}", file.complaints());
    assert_eq!(file.fields.last().unwrap().offset, "131072");
}

#[test]
fn a_table_with_a_gap_or_an_overlap_or_a_wrong_size_is_noticed() {
    let sound = Layout::of("Header");
    for row in 1..sound.fields.len() {
        let mut gap = sound.clone();
        gap.fields.remove(row - 1);
        assert_eq!(gap.complaints().len(), 1, "row {row} left out");
        for (offset, size) in [(1, 0), (0, 1)] {
            let mut wrong = sound.clone();
            let (was, long) = wrong.fields[row].fixed().unwrap();
            wrong.fields[row].offset = (was + offset).to_string();
            wrong.fields[row].size = (long + size).to_string();
            assert!(!wrong.complaints().is_empty(), "row {row} shifted");
        }
    }
}

/// Each invariant names a test that exists. Where it lies begins in `tests/store`, unless it says more; without a
/// file it is in the one before.
#[test]
fn invariants_name_tests_that_exist() {
    let place = |file: &str| match file.split('/').next() {
        Some("src" | "tests" | "python") => path(file),
        _ => path("tests/store").join(file),
    };
    let rows = table(
        &section("Invariants and their tests"),
        &["invariant", "test"],
    );
    let mut count = 0;
    for row in &rows {
        let mut file = "";
        for name in row[1].split(", ").map(|name| name.trim_matches('`')) {
            let (named, test) = name.split_once("::").unwrap_or((name, ""));
            file = if named.is_empty() { file } else { named };
            let text = std::fs::read_to_string(place(file));
            let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(
                test.is_empty() || text.contains(&format!("fn {test}(")),
                "{file} has no test {test}"
            );
            count += 1;
        }
    }
    assert!(count >= 85, "{count}");
}
