//! "A store from scratch": stores that are written after FORMAT.md alone, without a log or a checkpoint.

use std::collections::BTreeSet;
use std::path::Path;

use everseen::hash::KeyHasher;
use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Hash, Kind, Store};
use tempfile::TempDir;

use super::bytes::{crc32, page, probes};
use super::counting::counters;
use super::doc::Layout;
use super::fingerprints::encoded_at;
use super::forged_segments::{seal, set};
use super::golden::key;
use super::reader;
use super::refused::mend_superblock;
use super::seed;
use super::store_file::superblock_places;

const KEYS: u64 = 20_000;
const FPR: f64 = 1e-6;
const CAPACITY: u64 = 1 << 20;
/// What a writer may choose.
const KEYS_IN_PAGE: usize = 900;
const PAGES_IN_SEGMENT: usize = 7;

fn bytes(file: &mut [u8], section: &str, name: &str, value: &[u8]) {
    let (offset, size) = Layout::of(section).place(name);
    assert_eq!(value.len(), size);
    file[offset..offset + size].copy_from_slice(value);
}

/// Step 2: a file of 32 pages that begins with a header. Kinds and sizes are fields of it.
fn begun(kind: u64, sizes: &[(&str, u64)]) -> Vec<u8> {
    let mut file = vec![0; 131_072];
    bytes(&mut file, "Header", "magic", b"EVERSEEN");
    bytes(&mut file, "Header", "seed", &seed());
    bytes(&mut file, "Header", "store_id", b"0123456789abcdef");
    let fixed = [
        ("version", 1),
        ("header_length", 256),
        ("incompatible", if kind == 4 { 7 } else { 5 }),
        ("page_size", 4096),
        ("kind", kind),
        ("hash", 1),
        ("capacity", CAPACITY),
        ("fpr", FPR.to_bits()),
    ];
    for (name, value) in fixed.iter().chain(sizes) {
        set(&mut file, "Header", name, *value);
    }
    let crc = crc32(&[&file[..252]]);
    set(&mut file, "Header", "crc", crc.into());
    file
}

/// Step 4: the superblock, with the entry of its layer or its directory.
fn finish(file: &mut [u8], keys: u64, layer_count: u64, section: &str, entry: &[(&str, u64)]) {
    let header = file[..256].to_vec();
    let place = &mut file[superblock_places()[1].0..];
    bytes(place, "Superblocks", "magic", b"EVERSUPR");
    bytes(place, "Superblocks", "header", &header);
    let fixed = Layout::of("Superblocks").end();
    let fields = [
        ("length", (fixed + Layout::of(section).end()) as u64),
        ("sequence", 1),
        ("generation", 1),
        ("keys", keys),
        ("layer_count", layer_count),
    ];
    for (name, value) in fields {
        set(place, "Superblocks", name, value);
    }
    for (name, value) in entry {
        set(&mut place[fixed..], section, name, *value);
    }
    mend_superblock(place);
}

/// Appends a page with a head of this occupancy, and zeros.
fn append(file: &mut Vec<u8>, occupancy: usize) -> &mut [u8] {
    let begin = file.len();
    file.resize(begin + 4096, 0);
    set(&mut file[begin..], "Pages", "occupancy", occupancy as u64);
    set(&mut file[begin..], "Pages", "generation", 1);
    &mut file[begin..]
}

fn seal_last(file: &mut [u8]) {
    seal(file, file.len() as u64 / 4096 - 1);
}

/// "What a writer chooses".
fn low_bits(count: usize, width: u64) -> u32 {
    let apart = u128::from(width) * 1024 / (count.max(1) as u128 * 1218);
    apart.max(1).ilog2().min(56)
}

/// Appends the segments of a list, and returns the entries of the directory.
fn segments(file: &mut Vec<u8>, list: &[u64], space: u64) -> Vec<[u8; 40]> {
    let pages: Vec<&[u64]> = list.chunks(KEYS_IN_PAGE).collect();
    let begins = (0..pages.len()).map(|at| if at == 0 { 0 } else { pages[at][0] });
    let begins: Vec<u64> = begins.chain([space]).collect();
    let mut entries = Vec::new();
    for (index, own) in pages.chunks(PAGES_IN_SEGMENT).enumerate() {
        let begins = &begins[index * PAGES_IN_SEGMENT..];
        let mut entry = [0; 40];
        for (name, value) in [
            ("first", begins[0]),
            ("first_page", file.len() as u64 / 4096),
            ("keys", own.iter().map(|page| page.len() as u64).sum()),
            ("generation", 1),
            ("pages", own.len() as u64),
        ] {
            set(&mut entry, "Segment entry", name, value);
        }
        entries.push(entry);
        for (page, range) in own.iter().zip(begins.windows(2)) {
            let (first, end) = (range[0], range[1]);
            let place = (file.len() as u64 / 4096, 1);
            let low_bits = low_bits(page.len(), end - first);
            file.extend(encoded_at(page, first..end, low_bits, place).0);
            seal_last(file);
        }
        let fences = append(file, own.len());
        for (fence, place) in begins[..own.len()]
            .iter()
            .zip(fences[16..].chunks_exact_mut(8))
        {
            place.copy_from_slice(&fence.to_le_bytes());
        }
        seal_last(file);
    }
    entries
}

/// Step 3 of a fingerprint store.
fn of_fingerprints(hashes: &[u64]) -> Vec<u8> {
    let space = (CAPACITY as f64 / FPR).ceil() as u64;
    assert!(CAPACITY as f64 / space as f64 <= FPR);
    let mut file = begun(4, &[("bits", space)]);
    let of = |hash: &u64| page(*hash, space);
    let list: BTreeSet<u64> = hashes.iter().map(of).collect();
    let list: Vec<u64> = list.into_iter().collect();
    let entries = segments(&mut file, &list, space);
    let segment_pages = file.len() as u64 / 4096 - 32;
    let mut places = [0, 0];
    for place in &mut places {
        for some in entries.chunks(102) {
            *place = file.len() as u64 / 4096;
            append(&mut file, some.len())[16..][..40 * some.len()]
                .copy_from_slice(some.as_flattened());
            seal_last(&mut file);
        }
    }
    let entry = [
        ("place_a", places[0]),
        ("place_b", places[1]),
        ("segments", entries.len() as u64),
        ("segment_pages", segment_pages),
        ("directory_keys", list.len() as u64),
        ("end_page", file.len() as u64 / 4096),
        ("version", 1),
        ("directory_generation", 1),
    ];
    finish(&mut file, list.len() as u64, 0, "Directory entry", &entry);
    file
}

/// Counts a counter up, to 15 at most.
fn count_up(payload: &mut [u8], index: usize) {
    let shift = index % 2 * 4;
    if payload[index / 2] >> shift & 15 < 15 {
        payload[index / 2] += 1 << shift;
    }
}

/// Step 3 of a bloom store, or of a counting one whose journal has room for 16 images.
fn of_layers(counts: bool, hashes: &[u64]) -> Vec<u8> {
    let (pages, k) = if counts { (100, 7) } else { (20, 20) };
    let sizes = [("bits", pages * 32_640), ("probes", k)];
    let mut file = begun(if counts { 2 } else { 1 }, &sizes);
    let first_page = if counts { 64 } else { 32 };
    file.resize(first_page * 4096, 0);
    for number in 0..pages {
        let mut payload = vec![0; 4080];
        for hash in hashes.iter().filter(|hash| page(**hash, pages) == number) {
            match counts {
                true => counters(*hash, k as usize)
                    .iter()
                    .for_each(|at| count_up(&mut payload, *at)),
                false => probes(*hash, k as usize)
                    .iter()
                    .for_each(|at| payload[at / 8] |= 1 << (at % 8)),
            }
        }
        let occupancy = match counts {
            true => payload
                .iter()
                .map(|byte| usize::from(byte & 15 > 0) + usize::from(byte >> 4 > 0))
                .sum(),
            false => payload.iter().map(|byte| byte.count_ones() as usize).sum(),
        };
        append(&mut file, occupancy)[16..].copy_from_slice(&payload);
        seal_last(&mut file);
    }
    let keys = hashes.len() as u64;
    let entry = [
        ("first_page", first_page as u64),
        ("pages", pages),
        ("capacity", CAPACITY),
        ("keys", keys),
        ("fpr", FPR.to_bits()),
        ("probes", k),
        ("layer_flags", 1),
        ("run_length", if counts { 1 } else { 3 }),
    ];
    finish(&mut file, keys, 1, "Layer entry", &entry);
    file
}

fn has_all(store: &Store, keys: &[Vec<u8>]) -> bool {
    !store.contains_batch(keys).unwrap().contains(&false)
}

/// The library and the reader find all keys, and the library goes on with the store.
fn is_a_store(path: &Path, kind: Kind, hasher: &KeyHasher, keys: &[Vec<u8>]) {
    let options = Options::new().buffer(LEAST_BUFFER).background(false);
    let store = options.open_read_only(path).unwrap();
    let stats = store.stats().unwrap();
    assert_eq!((stats.kind, stats.keys), (kind, keys.len() as u64));
    assert!(has_all(&store, keys));
    assert!(!store.contains(b"no such key").unwrap());
    assert!(store.verify().unwrap().is_ok());
    drop(store);
    let hashes: Vec<u64> = keys.iter().map(|key| hasher.hash(key)).collect();
    assert!(
        reader::answers(path, &hashes, true)
            .iter()
            .all(|found| *found)
    );
    let store = options.open(path).unwrap();
    assert!(store.insert(b"one more").unwrap());
    store.close().unwrap();
    let store = options.open(path).unwrap();
    assert!(store.contains(b"one more").unwrap() && store.verify().unwrap().is_ok());
    assert!(has_all(&store, keys));
    store.close().unwrap();
}

#[test]
fn stores_from_scratch_are_stores() {
    let folder = TempDir::new().unwrap();
    let hasher = KeyHasher::new(Hash::Highway, &seed());
    for count in [0, KEYS] {
        let keys: Vec<Vec<u8>> = (0..count).map(key).collect();
        let hashes: Vec<u64> = keys.iter().map(|key| hasher.hash(key)).collect();
        for (kind, file) in [
            (Kind::Fingerprint, of_fingerprints(&hashes)),
            (Kind::Bloom, of_layers(false, &hashes)),
            (Kind::Counting, of_layers(true, &hashes)),
        ] {
            let path = folder.path().join(format!("{}-{count}", kind.name()));
            std::fs::write(&path, file).unwrap();
            is_a_store(&path, kind, &hasher, &keys);
        }
    }
}
