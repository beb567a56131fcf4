//! The pages that docs/format/dumps.md shows are those that are written. `tests/store/format/fingerprints.rs` reads them as FORMAT.md
//! says, without the library.

use std::fmt::Write;
use std::ops::Range;

use super::encode::fits;
use super::tests::page_of;
use super::{MOST_BITS, MOST_IN_PAGE, PAGE_BYTES};
use crate::hash::finalise;
use crate::page::ages::Ages;
use crate::page::{Binding, occupancy};

/// Lists that docs/format/dumps.md names: their title there, and what they are.
fn lists() -> Vec<(&'static str, Vec<u64>, Range<u64>)> {
    let squares = (0..100).map(|root| 5_000_000_000 + root * root);
    let mixed = |number: u64| finalise(number) >> 27;
    let mut random: Vec<u64> = (0..1000).map(mixed).collect();
    random.sort_unstable();
    let run = (0..100).map(|number| 1_000_000 + number);
    let most = 1 << 63;
    vec![
        ("squares", squares.collect(), 5_000_000_000..5_000_010_000),
        ("empty", Vec::new(), 0..1 << 40),
        ("run", run.collect(), 0..1 << 40),
        ("last", vec![most - 1], most - 1000..most),
        ("mixed", random, 0..1 << 37),
    ]
}

/// The row of a page in its table.
fn row(title: &str, page: &[u8; PAGE_BYTES]) -> String {
    let number = |at: usize, bytes: usize| {
        let bytes = page[at..at + bytes].iter().rev();
        bytes.fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let high_count = number(24, 2);
    let begins: Vec<_> = (0..=high_count.div_ceil(128) as usize)
        .map(|group| number(28 + 2 * group, 2).to_string())
        .collect();
    let begins = match &begins[..] {
        [first, .., last] if begins.len() > 4 => format!("{first}, {}, …, {last}", begins[1]),
        all => all.join(", "),
    };
    format!(
        "| {title} | {} | {high_count} | {} | {begins} | `{:#010x}` |\n",
        number(4, 4),
        number(26, 1),
        number(0, 4),
    )
}

/// The table of the first two pages, in stores of other ids.
fn bindings() -> String {
    let counted: [u8; 16] = std::array::from_fn(|index| index as u8);
    let mut table = "| store_id | goes on from | squares | empty |\n|---|---|---|---|\n".to_owned();
    for id in [counted, [0; 16], [0xFF; 16]] {
        let crcs = lists().into_iter().take(2).map(|(_, fingerprints, range)| {
            let mut page = page_of(&fingerprints, range);
            let count = occupancy(&page);
            Binding::to_store(&id).seal(9, 3, count, &mut page);
            format!(
                "`{:#010x}`",
                u32::from_le_bytes([page[0], page[1], page[2], page[3]])
            )
        });
        let crcs: Vec<_> = crcs.collect();
        let id_text: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let begin = crc32fast::hash(&id);
        writeln!(
            table,
            "| `{id_text}` | `{begin:#010x}` | {} |",
            crcs.join(" | ")
        )
        .unwrap();
    }
    table
}

/// The bytes of a page, 16 in a row, up to the last that is not zero.
fn dump(page: &[u8; PAGE_BYTES]) -> String {
    let end = page
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let mut text = "```\n".to_owned();
    for (row, bytes) in page[..end].chunks(16).enumerate() {
        let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{:08x}  {}", row * 16, bytes.join(" ")).unwrap();
    }
    text + "```\n"
}

/// Compares a block of docs/format/dumps.md with what it must be, or rewrites it.
fn assert_block(name: &str, expected: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/format/dumps.md");
    let text = std::fs::read_to_string(path).unwrap();
    let begin = format!("<!-- begin: {name} -->\n");
    let end = format!("<!-- end: {name} -->");
    let (before, rest) = text.split_once(&begin).unwrap();
    let (block, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("EVERSEEN_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(path, format!("{before}{begin}{expected}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(
        block, expected,
        "docs/format/dumps.md, block {name}; EVERSEEN_BLESS=1 rewrites it"
    );
}

#[test]
fn documented_pages_are_those_that_are_written() {
    let mut table = "| page | fingerprints | high_count | low_bits | begins | crc |\n".to_owned();
    table += "|---|---|---|---|---|---|\n";
    for (title, fingerprints, range) in lists() {
        let page = page_of(&fingerprints, range);
        table += &row(title, &page);
        if title == "squares" {
            assert_block("squares", &dump(&page));
        }
    }
    assert_block("fingerprints", &table);
    assert_block("bindings", &bindings());
}

/// No page has room for more, however near they lie to each other.
#[test]
fn a_page_has_room_for_so_many_and_no_more() {
    let most = (1..)
        .take_while(|count| fits(*count as usize, *count, Ages::NONE))
        .last();
    assert_eq!(most, Some(MOST_IN_PAGE as u64));
    assert_eq!(MOST_BITS, 32_704);
}
