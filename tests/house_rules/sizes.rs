//! How long a file or a function may be, and how full a folder.

use std::collections::BTreeMap;

use super::{assert_holds, sources};

const LONGEST_FILE: usize = 500;
const LARGEST_FOLDER: usize = 25;
const LONGEST_FUNCTION: usize = 60;

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

/// Of the library and the command, as `rustfmt` lays functions out.
fn functions_are_short(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if ![
        "src/",
        "cli/src/",
        "keys/src/",
        "python/src/",
        "capi/src/",
        "server/src/",
    ]
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
            "pub extern \"C\" ",
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
