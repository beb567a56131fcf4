//! The kind of a store is asked for in `src/filter` and in the kinds' own rooms.

use super::{assert_holds, code_lines};

/// The rooms that don't know which kind they work on.
const BLIND: [&str; 4] = [
    "src/engine/backup/",
    "src/engine/check/",
    "src/engine/checkpoint/",
    "src/engine/merge/",
];

/// How code asks for the kind.
const QUESTIONS: [&str; 6] = [
    ".counts()",
    ".is_set()",
    ".adds_layers()",
    ".rounding()",
    ".space()",
    "Kind::",
];

fn asks_for_the_kind(line: &str, question: &str) -> bool {
    line.match_indices(question).any(|(at, _)| {
        // Not a longer name, such as `SectionKind::`.
        let before = line[..at].chars().next_back();
        !question.starts_with('K') || before.is_none_or(|c| !c.is_alphanumeric())
    })
}

fn blind_rooms_ask_for_no_kind(path: &str, text: &str) -> Vec<String> {
    if !BLIND.iter().any(|room| path.starts_with(room)) {
        return Vec::new();
    }
    let text = text.split("#[cfg(test)]").next().unwrap_or(text);
    let asking = code_lines(text)
        .filter(|(_, line)| QUESTIONS.iter().any(|asked| asks_for_the_kind(line, asked)));
    asking
        .map(|(number, line)| format!("{path}:{number}: ask src/filter for it: {line}"))
        .collect()
}

#[test]
fn the_kind_is_asked_for_in_its_rooms() {
    assert_holds(blind_rooms_ask_for_no_kind);
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
