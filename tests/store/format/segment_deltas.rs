//! Copies and deltas of fingerprint stores against FORMAT.md, and `tests/reader.py` on what they make.

use std::ops::Range;
use std::path::Path;

use everseen::Kind;
use everseen::testing::{LEAST_BUFFER, Options};
use tempfile::TempDir;

use super::bytes::{crc32, number};
use super::delta::{MARK, digest};
use super::doc::Layout;
use super::reader::{agree, random, run};
use super::seed;
use super::store_file::newest_superblock;

fn options() -> Options {
    let options = Options::new().kind(Kind::Fingerprint).buffer(LEAST_BUFFER);
    let options = options.capacity(20_000).fpr(0.1).seed(seed());
    options.measured(false).background(false)
}

/// The pages of a store, by what names them.
struct Named {
    version: u64,
    directories: [Range<u64>; 2],
    /// First fingerprint and pages of each segment, fences included.
    segments: Vec<(u64, Range<u64>)>,
}

fn named(file: &[u8]) -> Named {
    let (_, superblock) = newest_superblock(file);
    let entry = &superblock[Layout::of("Superblocks").end()..];
    let table = Layout::of("Directory entry");
    let count = table.number(entry, "segments");
    let copies = ["place_a", "place_b"].map(|name| {
        let place = table.number(entry, name);
        place..place + count.div_ceil(102)
    });
    let segment = Layout::of("Segment entry");
    let size = segment.end();
    let entries = (0..count).map(|index| {
        let page = copies[0].start + index / 102;
        let at = page as usize * 4096 + 16 + size * (index % 102) as usize;
        let entry = &file[at..at + size];
        let (first, pages) = (
            segment.number(entry, "first_page"),
            segment.number(entry, "pages"),
        );
        let end = first + pages + pages.div_ceil(510);
        (segment.number(entry, "first"), first..end)
    });
    Named {
        version: table.number(entry, "version"),
        segments: entries.collect(),
        directories: copies,
    }
}

fn bytes_of(file: &[u8], pages: &Range<u64>) -> Vec<u8> {
    file[pages.start as usize * 4096..pages.end as usize * 4096].to_vec()
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn copies_and_deltas_of_segments_are_as_documented() {
    let folder = TempDir::new().unwrap();
    let [path, copy, delta] = ["store", "copy", "delta"].map(|name| folder.path().join(name));
    let store = options().create(&path).unwrap();
    let hashes = random(0xDE, 9000);
    store.insert_batch(&hashes[..4000]).unwrap();
    store.exempt(&hashes[8000..8100]).unwrap();
    store.checkpoint().unwrap();
    store.insert_batch(&hashes[4000..7000]).unwrap();
    store.snapshot(&copy).unwrap();
    store.insert_batch(&hashes[7000..7900]).unwrap();
    store.snapshot_since(&delta, &copy).unwrap();
    let before = read(&copy);
    let change = read(&delta);
    options().apply(&delta, &copy).unwrap();
    let after = read(&copy);
    store.close().unwrap();

    let mark = Layout::of("Copy mark");
    for file in [&before, &after] {
        let pages = named(file);
        let segments = pages.segments.iter().map(|(_, extent)| extent);
        let all: Vec<_> = segments.chain(&pages.directories).collect();
        let all: Vec<_> = all
            .iter()
            .map(|all| (all.start, all.end - all.start))
            .collect();
        assert_eq!(mark.number(&file[MARK..], "digest"), digest(file, &all));
        // The word `reused`.
        assert_eq!(number(&file[4096..4104]), pages.version);
    }

    let table = Layout::of("Deltas");
    assert_eq!(table.bytes(&change, "magic"), b"EVERDELT");
    assert_eq!(table.number(&change, "version"), 1);
    let moments = [(&before, "from"), (&after, "to")];
    for (file, name) in moments {
        for field in ["generation", "digest"] {
            let of_mark = mark.number(&file[MARK..], field);
            assert_eq!(table.number(&change, &format!("{name}_{field}")), of_mark);
        }
    }
    let length = table.number(&change, "superblock_length") as usize;
    let (_, newest) = newest_superblock(&after);
    assert_eq!(&change[96..96 + length], newest);
    // The directory, then the only segment: its first page says which it is.
    let pages = named(&after);
    let [(first, extent)] = &pages.segments[..] else {
        panic!("{} segments", pages.segments.len());
    };
    let mut expected = bytes_of(&after, &pages.directories[0]);
    let at = expected.len();
    expected.extend(bytes_of(&after, extent));
    assert_eq!(table.number(&change, "pages"), expected.len() as u64 / 4096);
    let carried = &change[96 + length..][..expected.len()];
    assert!(carried == expected);
    let of_page = Layout::of("Pages of fingerprints").number(&carried[at..], "first");
    assert_eq!(of_page, *first);
    // The exemptions have changed: those of the delta's section.
    let sections = table.number(&change, "section_pages") as usize * 4096;
    let end = &change[96 + length + expected.len() + sections..];
    assert_eq!((end.len(), &end[..8]), (16, &b"EVERDEND"[..]));
    let content = crc32(&[&change[96..change.len() - 4]]);
    assert_eq!(number(&end[12..]), content.into());
}

#[test]
fn the_reader_agrees_on_a_copy_of_segments_and_refuses_one_half_applied() {
    let folder = TempDir::new().unwrap();
    let [path, copy, delta] = ["store", "copy", "delta"].map(|name| folder.path().join(name));
    let store = options().create(&path).unwrap();
    let hashes = random(0xDF, 9000);
    store.insert_batch(&hashes[..3000]).unwrap();
    store.snapshot(&copy).unwrap();
    agree(&copy, &hashes);
    store.insert_batch(&hashes[3000..6000]).unwrap();
    for hash in &hashes[..500] {
        store.remove(*hash).unwrap();
    }
    store.snapshot_since(&delta, &copy).unwrap();
    store.close().unwrap();
    let before = read(&copy);
    options().apply(&delta, &copy).unwrap();
    let found = agree(&copy, &hashes);
    // Some removals took a fingerprint of two keys.
    let held = found[500..6000].iter().filter(|found| **found);
    assert!(held.count() > 5000);

    // Between steps 5 and 6.
    let mut half = before;
    let mark = Layout::of("Copy mark");
    let (state, _) = mark.place("state");
    half[MARK + state] = 1;
    let crc = crc32(&[&half[MARK + 12..MARK + 96]]);
    half[MARK + 8..MARK + 12].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&copy, half).unwrap();
    let said = run(&copy, &[]);
    assert!(!said.status.success());
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    let said = String::from_utf8_lossy(&said.stdout).into_owned() + &error;
    assert!(said.contains("a delta was applied half"), "{said}");
    assert!(Options::new().open_read_only(&copy).is_err());
}
