//! The kind of a store is asked for in `src/filter` and in the kinds' own rooms. What a store knows of a key, a set's or a
//! multiset's, is asked for where the answer lies, and once where keys are read and once where they are written.

use super::{assert_holds, code_lines};

/// The rooms that don't know which kind they work on.
const BLIND: [&str; 5] = [
    "src/api/",
    "src/engine/",
    "src/generation/",
    "src/config/",
    "src/storefile/",
];

/// In them, what may name a kind: where a caller chooses that of a new store, and tests in files of their own.
const NAMING: [&str; 4] = [
    "src/api/one_fingerprint/world.rs",
    "src/config/create_options.rs",
    "src/engine/read/overtaken.rs",
    "src/generation/buffer_pool/tests.rs",
];

/// Where code may ask what a store knows of a key. Elsewhere it is passed on.
const MODELS: [&str; 8] = [
    "src/page/",
    "src/file/header.rs",
    "src/memtable/by_model.rs",
    "src/bloom/",
    "src/fingerprint/",
    "src/filter/",
    "src/engine/read/mod.rs",
    "src/engine/write/mod.rs",
];

/// How code asks for the kind.
const QUESTIONS: [&str; 4] = [".counts()", ".is_set()", ".space()", "Kind::"];

fn asks_for_the_kind(line: &str, question: &str) -> bool {
    line.match_indices(question).any(|(at, _)| {
        // Not a longer name, such as `SectionKind::`.
        let before = line[..at].chars().next_back();
        !question.starts_with('K') || before.is_none_or(|c| !c.is_alphanumeric())
    })
}

fn blind_rooms_ask_for_no_kind(path: &str, text: &str) -> Vec<String> {
    if NAMING.contains(&path) || !BLIND.iter().any(|room| path.starts_with(room)) {
        return Vec::new();
    }
    let asking = code_lines(without_tests(text))
        .filter(|(_, line)| QUESTIONS.iter().any(|asked| asks_for_the_kind(line, asked)));
    asking
        .map(|(number, line)| format!("{path}:{number}: ask src/filter for it: {line}"))
        .collect()
}

/// Whatever the blind rooms need of a kind, they get through `src/filter`. The model of a race reads pages of its own.
fn blind_rooms_use_no_kind(path: &str, text: &str) -> Vec<String> {
    if path == "src/engine/read/loom.rs" || !BLIND.iter().any(|room| path.starts_with(room)) {
        return Vec::new();
    }
    let used = code_lines(without_tests(text)).filter(|(_, line)| {
        let rooms = ["crate::bloom::", "crate::fingerprint::"];
        rooms.iter().any(|room| line.contains(room))
    });
    used.map(|(number, line)| format!("{path}:{number}: use src/filter: {line}"))
        .collect()
}

fn what_is_known_of_keys_is_asked_in_few_places(path: &str, text: &str) -> Vec<String> {
    if !path.starts_with("src/") || MODELS.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let asking = code_lines(without_tests(text)).filter(|(_, line)| line.contains("KeyModel::"));
    asking
        .map(|(number, line)| format!("{path}:{number}: pass the model on: {line}"))
        .collect()
}

fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn the_kind_is_asked_for_in_its_rooms() {
    assert_holds(blind_rooms_ask_for_no_kind);
    for path in [
        "src/api/a.rs",
        "src/engine/read/a.rs",
        "src/generation/a.rs",
        "src/config/a.rs",
        "src/storefile/a.rs",
    ] {
        let line = "if header.kind.counts() {";
        assert_eq!(blind_rooms_ask_for_no_kind(path, line).len(), 1, "{path}");
    }
    let path = "src/engine/checkpoint/a.rs";
    let bad = [
        "if self.file.header.kind.counts() {",
        "match header.space() {",
        "if kind == Kind::Bloom {",
    ];
    for line in bad {
        assert_eq!(blind_rooms_ask_for_no_kind(path, line).len(), 1, "{line}");
        assert!(blind_rooms_ask_for_no_kind("src/bloom/a.rs", line).is_empty());
    }
    let good = "let kind = SectionKind::Exempt;\n// kind.counts()\n#[cfg(test)]\nmod tests { Kind::Bloom }";
    assert!(blind_rooms_ask_for_no_kind(path, good).is_empty());
}

#[test]
fn the_kinds_are_used_through_the_filter() {
    assert_holds(blind_rooms_use_no_kind);
    let used = "use crate::fingerprint::verify::SegmentDamage;";
    let path = "src/engine/check/a.rs";
    assert_eq!(blind_rooms_use_no_kind(path, used).len(), 1);
    assert!(blind_rooms_use_no_kind("src/filter/a.rs", used).is_empty());
    assert!(blind_rooms_use_no_kind(path, "/// See [`crate::bloom::A`].").is_empty());
    let tests = "#[cfg(test)]\nmod tests { use crate::bloom::page; }";
    assert!(blind_rooms_use_no_kind(path, tests).is_empty());
}

#[test]
fn the_model_of_keys_is_asked_for_where_it_is_answered() {
    assert_holds(what_is_known_of_keys_is_asked_in_few_places);
    let asked = "KeyModel::Multiset => self.count(),";
    let rule = what_is_known_of_keys_is_asked_in_few_places;
    assert_eq!(rule("src/engine/read/point.rs", asked).len(), 1);
    assert!(rule("src/engine/read/mod.rs", asked).is_empty());
    assert!(rule("src/engine/open/attach.rs", "model: KeyModel,").is_empty());
}
