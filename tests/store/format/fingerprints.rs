//! Pages of fingerprints: FORMAT.md's pages, from its rules alone.

mod aged_reader;
mod ages;
pub(crate) mod golden_ages;

use std::ops::Range;

use tempfile::TempDir;

use super::bytes::{crc32, finalise, number};
use super::doc::{Layout, section, table, text};
use super::reader;

/// Where FORMAT.md says that its pages lie, and what made them.
const NUMBER: u64 = 9;
const GENERATION: u64 = 3;

/// The lists of "Worked pages" with their ranges.
fn list(title: &str) -> (Vec<u64>, u64, u64) {
    let most = 1 << 63;
    match title {
        "squares" => (
            (0..100).map(|root| 5_000_000_000 + root * root).collect(),
            5_000_000_000,
            5_000_010_000,
        ),
        "empty" => (Vec::new(), 0, 1 << 40),
        "run" => ((1_000_000..1_000_100).collect(), 0, 1 << 40),
        "last" => (vec![most - 1], most - 1000, most),
        "mixed" => {
            let mut list: Vec<u64> = (0..1000).map(|index| finalise(index) >> 27).collect();
            list.sort_unstable();
            (list, 0, 1 << 37)
        }
        other => panic!("FORMAT.md has a page {other:?}"),
    }
}

/// Bits one by one.
struct Bits {
    page: Vec<u8>,
    at: usize,
}

impl Bits {
    fn put(&mut self, bit: bool) {
        self.page[self.at / 8] |= u8::from(bit) << (self.at % 8);
        self.at += 1;
    }
}

pub(crate) fn put(page: &mut [u8], layout: &Layout, name: &str, value: u64) {
    let (offset, size) = layout.place(name);
    page[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// A page as "Pages of fingerprints" says, and where its groups begin.
fn encoded(list: &[u64], first: u64, end: u64, low_bits: u32) -> (Vec<u8>, Vec<u64>) {
    encoded_at(list, first..end, low_bits, (NUMBER, GENERATION))
}

/// The same for a page of any number and generation.
pub(crate) fn encoded_at(
    list: &[u64],
    Range { start: first, end }: Range<u64>,
    low_bits: u32,
    (page_number, generation): (u64, u64),
) -> (Vec<u8>, Vec<u64>) {
    let layout = Layout::of("Pages of fingerprints");
    let high_count = ((end - first - 1) >> low_bits) + 1;
    let groups = high_count.div_ceil(128) as usize;
    let mut bits = Bits {
        page: vec![0; 4096],
        at: (28 + 2 * (groups + 1)).next_multiple_of(8) * 8,
    };
    let mut begins = vec![bits.at as u64];
    for group in 0..groups as u64 {
        let of = |high: u64| {
            let own = move |one: &&u64| (**one - first) >> low_bits == high;
            list.iter().filter(own)
        };
        let highs = 128 * group..128 * (group + 1);
        for high in highs.clone() {
            of(high).for_each(|_| bits.put(true));
            bits.put(false);
        }
        for one in highs.flat_map(of) {
            (0..low_bits).for_each(|bit| bits.put((one - first) >> bit & 1 == 1));
        }
        begins.push(bits.at as u64);
    }
    let mut page = bits.page;
    put(&mut page, &layout, "occupancy", list.len() as u64);
    put(&mut page, &layout, "generation", generation);
    put(&mut page, &layout, "first", first);
    put(&mut page, &layout, "high_count", high_count);
    put(&mut page, &layout, "low_bits", low_bits.into());
    for (place, begin) in begins.iter().enumerate() {
        page[28 + 2 * place..30 + 2 * place].copy_from_slice(&begin.to_le_bytes()[..2]);
    }
    let crc = crc32(&[&page_number.to_le_bytes(), &page[4..]]);
    put(&mut page, &layout, "crc", crc.into());
    (page, begins)
}

/// The page whose bytes stand in FORMAT.md.
fn shown() -> Vec<u8> {
    let text = text();
    let (_, rest) = text.split_once("<!-- begin: squares -->").unwrap();
    let (block, _) = rest.split_once("<!-- end: squares -->").unwrap();
    let rows = block.lines().filter_map(|line| line.split_once("  "));
    let bytes = rows.flat_map(|(_, bytes)| bytes.split(' '));
    let mut page: Vec<u8> = bytes
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    page.resize(4096, 0);
    page
}

#[test]
fn documented_pages_follow_from_the_rules() {
    let heading = [
        "page",
        "fingerprints",
        "high_count",
        "low_bits",
        "begins",
        "crc",
    ];
    let rows = table(&section("Worked pages"), &heading);
    assert_eq!(rows.len(), 5);
    for row in rows {
        let (list, first, end) = list(&row[0]);
        let low_bits: u32 = row[3].parse().unwrap();
        let (page, begins) = encoded(&list, first, end, low_bits);
        assert_eq!(row[1], list.len().to_string(), "{}", row[0]);
        assert_eq!(row[2], number(&page[24..26]).to_string(), "{}", row[0]);
        let stated = row[4].split(", ").filter(|begin| *begin != "…");
        for begin in stated {
            assert!(begins.contains(&begin.parse().unwrap()), "{}", row[0]);
        }
        let last = begins.last().unwrap().to_string();
        assert!(row[4].ends_with(&last), "{}", row[0]);
        assert_eq!(
            row[5],
            format!("`{:#010x}`", number(&page[..4])),
            "{}",
            row[0]
        );
        if row[0] == "squares" {
            assert_eq!(shown(), page);
        }
    }
}

/// A store's id, as FORMAT.md writes it.
fn id_of(text: &str) -> Vec<u8> {
    let digits = text.trim_matches('`');
    let bytes = (0..16).map(|index| u8::from_str_radix(&digits[2 * index..][..2], 16));
    bytes.collect::<Result<_, _>>().unwrap()
}

/// "Worked bindings": the same pages, in stores of other ids.
#[test]
fn documented_bindings_follow_from_the_rules() {
    let heading = ["store_id", "goes on from", "squares", "empty"];
    let rows = table(&section("Worked bindings"), &heading);
    assert_eq!(rows.len(), 3);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("page");
    for row in rows {
        let id = id_of(&row[0]);
        assert_eq!(row[1], format!("`{:#010x}`", crc32(&[&id])));
        for (title, low_bits, stated) in [("squares", 6, &row[2]), ("empty", 39, &row[3])] {
            let (list, first, end) = list(title);
            let (mut page, _) = encoded(&list, first, end, low_bits);
            let crc = crc32(&[&id, &NUMBER.to_le_bytes(), &page[4..]]);
            assert_eq!(*stated, format!("`{crc:#010x}`"), "{title} of {}", row[0]);
            page[..4].copy_from_slice(&crc.to_le_bytes());
            // The reader in another language takes it for that store, and for none else.
            std::fs::write(&path, &page).unwrap();
            let (number, end) = (NUMBER.to_string(), end.to_string());
            let place = ["--page-of-fingerprints", &number, &end];
            let own = [&place[..], &["--page-owner", row[0].trim_matches('`')]].concat();
            assert!(reader::run(&path, &own).status.success());
            assert!(!reader::run(&path, &place).status.success());
        }
    }
}

#[test]
fn the_reader_reads_a_page() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("page");
    let read = |page: &[u8], number: u64, end: u64| {
        std::fs::write(&path, page).unwrap();
        let (number, end) = (number.to_string(), end.to_string());
        let output = reader::run(&path, &["--page-of-fingerprints", &number, &end]);
        let said = String::from_utf8(output.stdout).unwrap();
        output.status.success().then(|| said.trim().to_owned())
    };
    let pages = [
        ("squares", 6),
        ("empty", 39),
        ("run", 33),
        ("last", 9),
        ("mixed", 26),
    ];
    for (title, low_bits) in pages {
        let (list, first, end) = list(title);
        let (page, _) = encoded(&list, first, end, low_bits);
        assert_eq!(
            read(&page, NUMBER, end),
            Some(format!("{list:?}")),
            "{title}"
        );
        // In another place, in another range, or with a bit that is another, it is none.
        assert_eq!(read(&page, NUMBER + 1, end), None);
        assert_eq!(read(&page, NUMBER, end + (1 << low_bits)), None);
        let mut harmed = page.clone();
        harmed[4095] = 0x80;
        assert_eq!(read(&harmed, NUMBER, end), None);
        let crc = crc32(&[&NUMBER.to_le_bytes(), &harmed[4..]]);
        harmed[..4].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(read(&harmed, NUMBER, end), None, "{title}: a stray bit");
    }
}
