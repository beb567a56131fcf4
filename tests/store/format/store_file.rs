//! The store file: header, superblocks, intents and pages against their tables.

use std::path::Path;

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Hash, Kind, Stats};
use tempfile::TempDir;

use super::bytes::{bit, crc32, number, page, page_crc, probes};
use super::doc::Layout;
use super::seed;

/// Where the superblocks lie, after the table of "The whole file".
pub(crate) fn superblock_places() -> [(usize, usize); 2] {
    let file = Layout::of("The whole file");
    [file.place("superblock A"), file.place("superblock B")]
}

/// The bytes of the newest superblock ("Superblocks"): from its first to its last that counts.
pub(crate) fn newest_superblock(file: &[u8]) -> (usize, &[u8]) {
    let layout = Layout::of("Superblocks");
    let found = superblock_places()
        .into_iter()
        .filter_map(|(offset, size)| {
            let place = &file[offset..offset + size];
            let length = layout.number(place, "length") as usize;
            let bytes = place.get(..length).filter(|bytes| bytes.len() >= 320)?;
            let crc = crc32(&[&bytes[12..]]);
            (layout.number(bytes, "crc") == u64::from(crc)).then_some((offset, bytes))
        });
    found
        .max_by_key(|(_, bytes)| layout.number(bytes, "sequence"))
        .unwrap()
}

fn options() -> Options {
    Options::new()
        .measured(false)
        .buffer(LEAST_BUFFER)
        .seed(seed())
        .background(false)
}

#[test]
fn the_header_is_as_documented() {
    let folder = TempDir::new().unwrap();
    let layout = Layout::of("Header");
    let mut ids = Vec::new();
    for (index, hash) in [Hash::Highway, Hash::Xxh3, Hash::Murmur3]
        .into_iter()
        .enumerate()
    {
        for (kind, id) in [(Kind::Bloom, 1), (Kind::Scalable, 3)] {
            let path = folder.path().join(format!("{hash}-{kind}"));
            let transactional = index == 1;
            let made = options().kind(kind).hash(hash).transactional(transactional);
            let made = made
                .capacity(5000 + index as u64)
                .fpr(1e-3)
                .growth(3)
                .tightening(0.75);
            let stats = made.create(&path).unwrap().stats().unwrap();
            let file = std::fs::read(&path).unwrap();
            let header = &file[..256];
            let get = |name: &str| layout.number(header, name);
            let fixed = kind == Kind::Bloom;
            assert_eq!(layout.bytes(header, "magic"), b"EVERSEEN");
            assert_eq!(get("version"), 1);
            assert_eq!(get("header_length"), 256);
            for (feature, bits) in [
                ("compatible", 0),
                ("read_only_compatible", 0),
                ("incompatible", 5),
            ] {
                assert_eq!(get(feature), bits);
            }
            assert_eq!(get("page_size"), 4096);
            assert_eq!(get("kind"), id);
            assert_eq!(get("hash"), index as u64 + 1);
            assert_eq!(get("flags"), u64::from(transactional));
            assert_eq!(get("capacity"), 5000 + index as u64);
            assert_eq!(layout.float(header, "fpr"), 1e-3);
            let layer = stats.layers.first();
            assert_eq!(get("probes"), layer.map_or(0, |layer| layer.k.into()));
            assert_eq!(get("bits"), layer.map_or(0, |layer| layer.bits));
            assert_eq!(layer.is_some(), fixed);
            assert_eq!(layout.bytes(header, "seed"), seed());
            assert_eq!(layout.bytes(header, "store_id"), stats.store_id);
            assert_eq!(get("created"), stats.created);
            assert_eq!(get("growth"), if fixed { 0 } else { 3 });
            let tightening = layout.float(header, "tightening");
            assert_eq!(tightening, if fixed { 0.0 } else { 0.75 });
            for field in layout
                .fields
                .iter()
                .filter(|field| field.name == "reserved")
            {
                let (offset, size) = field.fixed().unwrap();
                assert!(header[offset..offset + size].iter().all(|byte| *byte == 0));
            }
            assert_eq!(get("crc"), u64::from(crc32(&[&header[..252]])));
            assert!(file[256..4096].iter().all(|byte| *byte == 0));
            ids.push(stats.store_id);
        }
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6);
}

/// A superblock, its layers and its writers against what the library says of the store.
pub(crate) fn check_superblock(path: &Path, stats: &Stats) {
    let file = std::fs::read(path).unwrap();
    let (offset, bytes) = newest_superblock(&file);
    let layout = Layout::of("Superblocks");
    let get = |name: &str| layout.number(bytes, name);
    assert_eq!(layout.bytes(bytes, "magic"), b"EVERSUPR");
    assert_eq!(offset, superblock_places()[get("sequence") as usize % 2].0);
    assert_eq!(get("generation"), stats.generation);
    assert_eq!(layout.bytes(bytes, "header"), &file[..256]);
    assert_eq!(get("keys"), stats.keys);
    let has_moment = get("generation") > 1;
    assert_eq!(get("flags"), if has_moment { 4 } else { 0 });
    assert_eq!(get("layer_count"), stats.layers.len() as u64);
    assert_eq!(get("writer_count"), stats.commits.len() as u64);
    assert_eq!(get("section_count"), u64::from(stats.exempt > 0));
    let highest = stats.commits.iter().map(|commit| commit.sequence).max();
    assert_eq!(get("commit_sequence"), highest.unwrap_or(0));
    let entry = Layout::of("Layer entry");
    let mut at = layout.end();
    let mut end = 32;
    for layer in &stats.layers {
        let bytes = &bytes[at..at + entry.end()];
        let first = entry.number(bytes, "first_page");
        assert!(
            first.is_multiple_of(16) && first >= end && first < end + 16,
            "{first} {end}"
        );
        assert_eq!(entry.number(bytes, "pages"), layer.pages);
        assert_eq!(entry.number(bytes, "capacity"), layer.capacity);
        assert_eq!(entry.number(bytes, "keys"), layer.keys);
        assert_eq!(entry.number(bytes, "probes"), u64::from(layer.k));
        assert!(entry.float(bytes, "fpr") > 0.0 && entry.float(bytes, "fpr") < 1.0);
        assert!(entry.number(bytes, "layer_flags") <= 1);
        let run_length = match (stats.kind, layer.k) {
            (Kind::Counting, _) => 1,
            (_, ..=20) => 3,
            _ => 2,
        };
        assert_eq!(entry.number(bytes, "run_length"), run_length);
        assert!(
            entry
                .bytes(bytes, "layer_reserved")
                .iter()
                .all(|byte| *byte == 0)
        );
        check_pages(
            &file,
            first,
            layer.pages,
            entry.number(bytes, "layer_flags") == 1,
            stats,
        );
        end = first + layer.pages;
        at += entry.end();
    }
    assert!(file.len() as u64 >= end * 4096);
    if stats.exempt > 0 {
        let entry = Layout::of("Section entry");
        check_section(&file, &bytes[at..at + entry.end()], end, stats);
        at += entry.end();
    }
    let entry = Layout::of("Writer entry");
    for commit in &stats.commits {
        let head = &bytes[at..at + entry.end()];
        assert_eq!(entry.number(head, "sequence"), commit.sequence);
        let (name, tag) = (commit.writer.as_bytes(), commit.tag.as_slice());
        assert_eq!(entry.number(head, "name_length"), name.len() as u64);
        assert_eq!(entry.number(head, "tag_length"), tag.len() as u64);
        assert_eq!(entry.number(head, "reserved"), 0);
        let rest = &bytes[at + 16..];
        assert!(rest.starts_with(&[name, tag].concat()));
        at += (16 + name.len() + tag.len()).next_multiple_of(8);
    }
    if has_moment {
        assert!(bytes[at..at + 8].iter().any(|byte| *byte != 0));
        at += 8;
    }
    assert_eq!(at, bytes.len());
}

/// The section of exemptions, which lies behind the layers here.
fn check_section(file: &[u8], bytes: &[u8], end: u64, stats: &Stats) {
    let entry = Layout::of("Section entry");
    let get = |name: &str| entry.number(bytes, name);
    assert_eq!(get("section_kind"), 1);
    assert_eq!((get("rarity"), get("section_reserved")), (0, 0));
    assert_eq!(get("hashes"), stats.exempt);
    let first = get("section_page");
    assert!(first.is_multiple_of(16) && first >= end);
    let begins = first as usize * 4096;
    let length = 8 + 8 * stats.exempt as usize;
    let content = &file[begins..begins + length];
    assert_eq!(get("section_crc"), u64::from(crc32(&[content])));
    let layout = Layout::of("Sections");
    let stamp = layout.number(content, "stamp");
    assert!(stamp > 1 && stamp <= stats.generation, "{stamp}");
    let hashes: Vec<_> = content[8..].chunks_exact(8).map(number).collect();
    assert!(hashes.is_sorted_by(|a, b| a < b));
    let behind = &file[begins + length..begins + length.next_multiple_of(4096)];
    assert!(behind.iter().all(|byte| *byte == 0));
}

fn check_pages(file: &[u8], first: u64, pages: u64, all_written: bool, stats: &Stats) {
    let layout = Layout::of("Pages");
    let mut written = 0;
    for number in first..first + pages {
        let page = &file[number as usize * 4096..][..4096];
        if page.iter().all(|byte| *byte == 0) {
            assert!(!all_written, "page {number} is blank");
            continue;
        }
        written += 1;
        let crc = page_crc(file, number, page);
        assert_eq!(layout.number(page, "crc"), u64::from(crc), "page {number}");
        let set: u32 = layout
            .bytes(page, "payload")
            .iter()
            .map(|byte| byte.count_ones())
            .sum();
        assert_eq!(
            layout.number(page, "occupancy"),
            u64::from(set),
            "page {number}"
        );
        let generation = layout.number(page, "generation");
        assert!(
            generation > 1 && generation <= stats.generation,
            "{generation}"
        );
    }
    assert!(written > 0);
}

/// Several checkpoints, layers and writers, looked at after each close.
#[test]
fn superblocks_layers_writers_and_pages_are_as_documented() {
    let folder = TempDir::new().unwrap();
    for kind in [Kind::Bloom, Kind::Scalable] {
        let path = folder.path().join(kind.name());
        let options = options().kind(kind);
        let capacity = if kind == Kind::Bloom { 20_000 } else { 3000 };
        options
            .clone()
            .capacity(capacity)
            .fpr(1e-4)
            .create(&path)
            .unwrap();
        let mut next = 0;
        for (round, writer) in ["b", "a", "ab", "ä"].into_iter().enumerate() {
            let store = options.clone().writer(writer).open(&path).unwrap();
            for _ in 0..4000 {
                store.insert(next).unwrap();
                next += 1;
            }
            store.commit_with(&vec![round as u8; round * 5]).unwrap();
            store.close().unwrap();
            let stats = options.open_read_only(&path).unwrap().stats().unwrap();
            assert!(stats.keys + 5 >= next, "{stats:?}");
            check_superblock(&path, &stats);
        }
        let stats = options.open_read_only(&path).unwrap().stats().unwrap();
        assert_eq!(stats.commits.len(), 4);
        assert_eq!(stats.layers.len() > 1, kind == Kind::Scalable);
    }
}

/// The bits that a checkpoint sets are those of "Probes", and no others.
#[test]
fn a_page_holds_the_bits_of_its_keys_and_no_others() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = options().capacity(100_000).fpr(1e-3).create(&path).unwrap();
    let layer = store.stats().unwrap().layers[0];
    let keys: Vec<u64> = (0..300).collect();
    store.insert_batch(&keys).unwrap();
    store.close().unwrap();
    let file = std::fs::read(&path).unwrap();
    let mut expected = vec![vec![false; 32_640]; layer.pages as usize];
    for key in keys {
        let hash = super::bytes::mix(key, &seed());
        for bit in probes(hash, layer.k as usize) {
            expected[page(hash, layer.pages) as usize][bit] = true;
        }
    }
    for (number, expected) in expected.iter().enumerate() {
        let page = &file[131_072 + number * 4096..][..4096];
        let got: Vec<_> = (0..32_640).map(|index| bit(page, index)).collect();
        assert!(got == *expected, "page {number}");
    }
}

/// The intents that the last checkpoint left name its chunks.
#[test]
fn intents_are_as_documented() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = options().capacity(100_000).fpr(1e-3).create(&path).unwrap();
    let stats = store.stats().unwrap();
    let layer = stats.layers[0];
    store.insert_batch(&Vec::from_iter(0..3000)).unwrap();
    store.close().unwrap();
    let file = std::fs::read(&path).unwrap();
    let layout = Layout::of("Intents");
    let whole = Layout::of("The whole file");
    let mut intents: Vec<_> = (0..2)
        .map(|index| {
            let (offset, size) = whole.place(&format!("intent {index}"));
            let (bytes, rest) = file[offset..offset + size].split_at(64);
            assert!(rest.iter().all(|byte| *byte == 0));
            assert_eq!(layout.bytes(bytes, "magic"), b"EVERINTT");
            assert_eq!(
                layout.number(bytes, "crc"),
                u64::from(crc32(&[&bytes[12..]]))
            );
            assert_eq!(layout.number(bytes, "reserved"), 0);
            assert_eq!(layout.bytes(bytes, "store_id"), stats.store_id);
            assert_eq!(layout.number(bytes, "generation"), 1);
            let get = |name| layout.number(bytes, name);
            assert_eq!(get("sequence") % 2, index);
            (get("sequence"), get("start"), get("end"))
        })
        .collect();
    intents.sort_unstable();
    let [(first, start, middle), (second, again, end)] = intents[..] else {
        panic!("{intents:?}");
    };
    // The last two: chunks n - 2 and n - 1, then n - 1 and n, each named twice.
    assert_eq!(second, first + 1);
    assert_eq!(end, 32 + layer.pages);
    let chunk = (middle - start) / 2;
    assert!(chunk >= 1 && again == start + chunk, "{intents:?}");
    assert_eq!((start - 32) / chunk, first - 1);
    assert_eq!(layer.pages.div_ceil(chunk), second + 1);
    // What a superblock of the same length would say of itself is not this file's business here.
    assert_eq!(number(&file[12_288..12_296]), 0);
}
