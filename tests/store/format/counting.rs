//! Counting stores: counters, the journal, and the reader in another language.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use everseen::hash::KeyHasher;
use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Hash, Kind, Store};
use tempfile::TempDir;

use super::bytes::{crc32, finalise, number, page, page_crc};
use super::doc::{Layout, check_block};
use super::log::interrupted;
use super::reader;
use super::seed;

const PAGES: u64 = 3;
const PROBES: usize = 7;
const KEYS: [&str; 3] = ["", "a", "https://example.com/"];
/// Where the first page of so small a store lies: behind 16 pages of journal and 16 images.
const FIRST_PAGE: usize = 64;

fn options() -> Options {
    let options = Options::new().kind(Kind::Counting).buffer(LEAST_BUFFER);
    options.seed(seed()).background(false)
}

/// As FORMAT.md has it, "Probes".
pub(crate) fn counters(hash: u64, probes: usize) -> BTreeSet<usize> {
    let mut state = hash;
    let mut draws = Vec::new();
    while draws.len() < probes {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let both = finalise(state);
        draws.extend([both & 0xFFFF_FFFF, both >> 32].map(|draw| ((draw * 8160) >> 32) as usize));
    }
    draws[..probes].iter().copied().collect()
}

fn counter(page: &[u8], index: usize) -> u8 {
    page[16 + index / 2] >> (index % 2 * 4) & 15
}

#[test]
fn counters_are_those_of_the_vectors() {
    let hasher = KeyHasher::new(Hash::Highway, &seed());
    let mut block = "| key | 64 bits | page | counters |\n|---|---|---|---|\n".to_owned();
    for key in KEYS {
        let hash = hasher.hash(key.as_bytes());
        let own: Vec<_> = counters(hash, PROBES)
            .iter()
            .map(ToString::to_string)
            .collect();
        let page = page(hash, PAGES);
        writeln!(
            block,
            "| `\"{key}\"` | `{hash:#018x}` | {page} | {} |",
            own.join(", ")
        )
        .unwrap();
    }
    check_block("counters", &block);

    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = options().capacity(2400).fpr(0.01).create(&path).unwrap();
    let layer = store.stats().unwrap().layers[0];
    assert_eq!((layer.pages, layer.k as usize), (PAGES, PROBES));
    let times = [2, 1, 17];
    for (key, times) in KEYS.iter().zip(times) {
        for _ in 0..times {
            store.insert(key.as_bytes()).unwrap();
        }
    }
    store.insert(b"gone").unwrap();
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert!(store.remove(b"gone").unwrap());
    assert!(store.remove(KEYS[2].as_bytes()).unwrap());
    store.close().unwrap();
    let file = std::fs::read(&path).unwrap();
    let mut expected = vec![[0_u32; 8160]; PAGES as usize];
    for (key, times) in KEYS.iter().zip(times) {
        let hash = hasher.hash(key.as_bytes());
        for index in counters(hash, PROBES) {
            expected[page(hash, PAGES) as usize][index] += times;
        }
    }
    for (number, expected) in expected.iter().enumerate() {
        let bytes = &file[(FIRST_PAGE + number) * 4096..][..4096];
        for (index, times) in expected.iter().enumerate() {
            assert_eq!(u32::from(counter(bytes, index)), *times.min(&15), "{index}");
        }
        let above_zero = expected.iter().filter(|times| **times > 0).count() as u64;
        assert_eq!(Layout::of("Pages").number(bytes, "occupancy"), above_zero);
    }
}

/// A store in the midst of writing the pages of a chunk.
fn torn(copies: &Path) -> std::path::PathBuf {
    // Front, numbers and images of the journal are the first three writes behind the superblocks.
    interrupted(Kind::Counting, false, 4, copies)
}

#[test]
fn a_journal_is_as_documented() {
    let copies = TempDir::new().unwrap();
    let path = torn(copies.path());
    let file = std::fs::read(&path).unwrap();
    let front = &file[131_072..];
    let layout = Layout::of("Journal");
    assert_eq!(layout.bytes(front, "magic"), b"EVERJRNL");
    assert_eq!(
        layout.number(front, "crc"),
        u64::from(crc32(&[&front[12..64]]))
    );
    assert_eq!(layout.bytes(front, "store_id"), &file[112..128]);
    assert_eq!(layout.number(front, "generation"), 1);
    let count = layout.number(front, "count") as usize;
    assert!(count > 1, "{count}");
    let (_, superblock) = super::store_file::newest_superblock(&file);
    let entry = &superblock[320..];
    let own = Layout::of("Layer entry");
    let first_page = own.number(entry, "first_page");
    let pages = first_page..first_page + own.number(entry, "pages");
    let mut before = 0;
    let mut differ = 0;
    for place in 0..count {
        let at = number(&file[135_168 + 8 * place..][..8]);
        assert!(at > before && pages.contains(&at), "{at}");
        before = at;
        let image = &file[196_608 + 4096 * place..][..4096];
        let crc = page_crc(&file, at, image);
        let layout = Layout::of("Pages");
        assert_eq!(layout.number(image, "crc"), u64::from(crc));
        assert_eq!(layout.number(image, "generation"), 2);
        differ += usize::from(file[at as usize * 4096..][..4096] != *image);
    }
    // Half of the write is in its place.
    assert!((1..count).contains(&differ), "{differ} of {count}");
    let store = Options::new().buffer(LEAST_BUFFER).open(&path).unwrap();
    store.close().unwrap();
    let mended = std::fs::read(&path).unwrap();
    for place in 0..count {
        let at = number(&file[135_168 + 8 * place..][..8]) as usize;
        assert_eq!(
            layout_of(&mended, at),
            layout_of(&file, 48 + place),
            "page {at}"
        );
    }
}

/// What a page says of itself, but for its CRC, which is of its place.
fn layout_of(file: &[u8], page: usize) -> &[u8] {
    &file[page * 4096 + 4..][..4092]
}

/// What both say of hashes as given to `insert_hash`.
fn agree(path: &Path, hashes: &[u64]) -> Vec<u64> {
    let store = Options::new().buffer(LEAST_BUFFER).open_read_only(path);
    let store: Store = store.unwrap();
    let count = |hash: &u64| store.count_estimate(*hash).unwrap();
    let library: Vec<_> = hashes.iter().map(count).collect();
    assert_eq!(reader::counts(path, hashes), library);
    library
}

#[test]
fn the_reader_counts_as_the_library_does() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = options().capacity(20_000).fpr(0.1).create(&path).unwrap();
    let hashes: Vec<u64> = (0..6000).collect();
    for part in [&hashes[..4000], &hashes[..1000], &hashes[500..700]] {
        store.insert_batch(part).unwrap();
    }
    store.checkpoint().unwrap();
    for hash in 0..300 {
        assert!(store.remove(hash).unwrap());
    }
    store.insert_batch(&hashes[5000..5500]).unwrap();
    // With a log, and without.
    let copies = TempDir::new().unwrap();
    let copied = super::snapshot::copy(&path, copies.path());
    let logged = agree(&copied, &hashes);
    store.close().unwrap();
    let closed = agree(&path, &hashes);
    for (hash, count) in [(100, 1), (400, 2), (600, 3), (3000, 1), (5200, 1)] {
        assert!(logged[hash] >= count && closed[hash] >= count, "{hash}");
    }
    assert!(closed.contains(&0));
    // And in the midst of a checkpoint, with the journal half written, and whole.
    for nth in [3, 4] {
        let copies = TempDir::new().unwrap();
        let path = interrupted(Kind::Counting, false, nth, copies.path());
        let counts = agree(&path, &Vec::from_iter(0..4000));
        assert!(counts[..1000].iter().all(|count| *count == 1), "{nth}");
    }
}
