//! FORMAT.md with its further pages as data: their tables of bytes, and the blocks in them that are generated.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::bytes::number;

/// A line of a table whose first columns are offset, size and name.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) offset: String,
    pub(crate) size: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) violation: String,
}

impl Field {
    /// Where it lies, if that is a plain number.
    pub(crate) fn fixed(&self) -> Option<(usize, usize)> {
        Some((self.offset.parse().ok()?, self.size.parse().ok()?))
    }
}

/// The table of bytes of a section.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) fields: Vec<Field>,
}

/// FORMAT.md and its further pages.
const PARTS: [&str; 5] = [
    "FORMAT.md",
    "docs/format/deltas.md",
    "docs/format/dumps.md",
    "docs/format/invariants.md",
    "docs/format/seen-sets.md",
];

/// Returns where a file of the repository lies.
pub(super) fn path(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(part)
}

fn text_of(part: &str) -> String {
    std::fs::read_to_string(path(part)).unwrap()
}

/// All of the parts, one after the other. Each begins with a heading.
pub(crate) fn text() -> String {
    PARTS.map(text_of).concat()
}

/// The lines under the heading `name`, up to the next heading.
pub(crate) fn section(name: &str) -> Vec<String> {
    let text = text();
    let heading =
        |line: &&str| line.starts_with('#') && line.trim_start_matches('#').trim() == name;
    assert_eq!(text.lines().filter(heading).count(), 1, "heading {name:?}");
    text.lines()
        .skip_while(|line| !heading(line))
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

pub(crate) fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').trim_end_matches('|');
    line.split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The lines of the first table in `lines` whose heading begins with these cells.
pub(crate) fn table(lines: &[String], heading: &[&str]) -> Vec<Vec<String>> {
    let mut rows = lines
        .iter()
        .map(|line| cells(line))
        .skip_while(|row| row.len() < heading.len() || row[..heading.len()] != *heading);
    assert!(rows.next().is_some(), "no table {heading:?}");
    rows.skip(1).take_while(|row| row.len() > 1).collect()
}

impl Layout {
    pub(crate) fn of(name: &str) -> Self {
        let rows = table(&section(name), &["offset", "size", "name"]);
        let cell = |row: &[String], index: usize| row.get(index).cloned().unwrap_or_default();
        let fields = rows
            .iter()
            .map(|row| Field {
                offset: cell(row, 0),
                size: cell(row, 1),
                name: cell(row, 2),
                kind: cell(row, 3),
                violation: cell(row, 5),
            })
            .collect();
        Self { fields }
    }

    /// The first field of that name.
    pub(crate) fn field(&self, name: &str) -> &Field {
        let found = self.fields.iter().find(|field| field.name == name);
        found.unwrap_or_else(|| panic!("FORMAT.md has no field {name:?} here"))
    }

    /// Offset and size of a field whose place is fixed.
    pub(crate) fn place(&self, name: &str) -> (usize, usize) {
        self.field(name).fixed().unwrap()
    }

    pub(crate) fn bytes<'a>(&self, bytes: &'a [u8], name: &str) -> &'a [u8] {
        let (offset, size) = self.place(name);
        &bytes[offset..offset + size]
    }

    pub(crate) fn number(&self, bytes: &[u8], name: &str) -> u64 {
        let field = self.field(name);
        assert!(field.kind.starts_with('u'), "{field:?} is no number");
        number(self.bytes(bytes, name))
    }

    pub(crate) fn float(&self, bytes: &[u8], name: &str) -> f64 {
        assert_eq!(self.field(name).kind, "f64");
        f64::from_bits(number(self.bytes(bytes, name)))
    }

    /// One past the last byte of fixed place.
    pub(crate) fn end(&self) -> usize {
        let last = self.fields.iter().rev().find_map(Field::fixed);
        last.map_or(0, |(offset, size)| offset + size)
    }

    /// Gaps, overlaps, and sizes that don't fit their types.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut end = Some(0);
        for field in &self.fields {
            if let Ok(offset) = field.offset.parse::<usize>()
                && end != Some(offset)
            {
                complaints.push(format!("{}: at {offset}, expected {end:?}", field.name));
            }
            let size = field.size.parse::<usize>();
            let fits = match field.kind.as_str() {
                "u16" => size == Ok(2),
                "u32" => size == Ok(4),
                "u64" | "f64" => size == Ok(8),
                _ => true,
            };
            if !fits {
                complaints.push(format!(
                    "{}: {} bytes of {}",
                    field.name, field.size, field.kind
                ));
            }
            end = field.fixed().map(|(offset, size)| offset + size);
        }
        complaints
    }
}

/// Compares a generated block with what it must be, or rewrites it.
pub(crate) fn check_block(name: &str, expected: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (begin, end) = (
        format!("<!-- begin: {name} -->\n"),
        format!("<!-- end: {name} -->"),
    );
    let with = PARTS
        .into_iter()
        .filter(|part| text_of(part).contains(&begin));
    let [part] = with.collect::<Vec<_>>()[..] else {
        panic!("block {name}: not in exactly one of {PARTS:?}");
    };
    let text = text_of(part);
    let (before, rest) = text.split_once(&begin).unwrap();
    let (block, after) = rest.split_once(&end).unwrap();
    if super::bless() {
        std::fs::write(path(part), format!("{before}{begin}{expected}{end}{after}")).unwrap();
        return;
    }
    for (number, (got, expected)) in block.lines().zip(expected.lines()).enumerate() {
        assert_eq!(
            got, expected,
            "{part}, block {name}, line {number}; EVERSEEN_BLESS=1 rewrites it"
        );
    }
    assert_eq!(
        block, expected,
        "{part}, block {name}; EVERSEEN_BLESS=1 rewrites it"
    );
}
