//! Names of values in labels and messages.

use std::fmt::Write;

use super::Part;
use crate::columns::{ColumnError, Separator};
use crate::url::pages::PageRules;

/// The most bytes of names in a label. A store keeps 4096 bytes, and the rest of the rule wants some, too.
const MOST_NAMES: usize = 3072;

/// Returns whether a label has room for these names.
pub(super) fn fit(names: impl IntoIterator<Item = String>) -> bool {
    let lengths = names
        .into_iter()
        .map(|name| encoded(name.as_bytes()).len() + "column=".len() + 1);
    lengths.sum::<usize>() <= MOST_NAMES
}

/// Refuses no name, and a name that is there twice.
pub(super) fn ensure_each_once(names: &[String]) -> Result<(), ColumnError> {
    if names.is_empty() {
        return Err(ColumnError::Empty);
    }
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            let name = name.clone();
            return Err(ColumnError::Twice { name });
        }
    }
    Ok(())
}

/// Bytes without spaces, in ASCII.
pub(super) fn encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_graphic() && *byte != b'%' {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Returns the bytes of a text, if this is how they are encoded: of two spellings, two labels would be one rule.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match byte {
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?
            }
            byte => *byte,
        });
    }
    (encoded(&bytes) == text).then_some(bytes)
}

/// Returns the options of the command for rules beyond the standard.
pub(super) fn page_options(pages: &PageRules) -> Vec<String> {
    let lists = [
        ("--drop-query", &pages.drop_query),
        ("--keep-query", &pages.keep_query),
    ];
    let given = lists.into_iter().filter(|(_, names)| !names.is_empty());
    let lists = given.map(|(option, names)| format!("{option} '{}'", names.join(",")));
    let flags = [
        ("--drop-session-path", pages.drop_session_path),
        ("--ignore-scheme", pages.ignore_scheme),
        ("--drop-trailing-slash", pages.drop_trailing_slash),
        ("--lower-path", pages.lower_path),
    ];
    let flags = flags.into_iter().filter(|(_, is_given)| *is_given);
    lists
        .chain(flags.map(|(option, _)| option.to_owned()))
        .collect()
}

/// Returns the options of the command that name a part of a record.
pub(super) fn part_options(part: &Part) -> String {
    let option = match part {
        Part::Whole => return String::new(),
        Part::Json(_) => "--json-key",
        Part::Csv(_) => "--csv-key",
        Part::Fields(_) => "--key-field",
    };
    let names = part.names().into_iter();
    let mut options: Vec<_> = names.map(|name| format!("{option} {name}")).collect();
    match part {
        Part::Csv(own) => {
            match own.delimiter {
                b',' => {}
                b'\t' => options.push("--tsv".to_owned()),
                other => options.push(format!("--delimiter '{}'", other.escape_ascii())),
            }
            options.extend((!own.has_header).then(|| "--no-header".to_owned()));
        }
        Part::Fields(own) => {
            if let Separator::Bytes(bytes) = &own.separator {
                options.push(format!("--field-separator '{}'", bytes.escape_ascii()));
            }
        }
        Part::Whole | Part::Json(_) => {}
    }
    options.join(" ")
}
