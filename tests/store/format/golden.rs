//! Golden files: stores that an early build made. Every later one must answer the same for them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use everseen::hash::KeyHasher;
use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Hash, Kind, Store};
use tempfile::TempDir;

use super::bytes::crc32;
use super::doc::{section, table};
use super::fingerprints::golden_ages;
use super::runs::golden as golden_runs;
use super::snapshot::copy;
use super::{bless, bound, golden_fingerprints, reader, seed};

const NAMES: [&str; 11] = [
    "bloom.ever",
    "scalable.ever",
    "killed.ever",
    "counting.ever",
    "labelled.ever",
    golden_fingerprints::NAME,
    golden_runs::NAME,
    golden_ages::NAME,
    bound::BLOOM,
    bound::COUNTING,
    bound::FINGERPRINT,
];
/// A copy, and the delta that brings it up to date.
const COPY: [&str; 2] = ["copy.ever", "copy.delta"];
/// What the command gave the stores that it made for lines that are URLs.
pub(crate) const LABEL: &[u8] = b"everseen lines: url rules=1 sort-query not-url=drop";
/// Keys that are looked up: those that were inserted, then others.
pub(crate) const LOOKED_UP: u64 = 10_000;

pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("https://example.org/{number}").into_bytes()
}

/// The time is that of the store that forgets.
pub(crate) fn options() -> Options {
    Options::new()
        .clock(golden_ages::time(golden_ages::NOW))
        .buffer(LEAST_BUFFER)
        .seed(seed())
        .background(false)
}

/// The folder of the golden files. Missing ones are made, if that was asked for; those that are
/// there are kept for ever.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden");
        for name in NAMES {
            if !folder.join(name).exists() {
                assert!(bless(), "{name} is missing; EVERSEEN_BLESS=1 makes it");
                make(name, &folder);
            }
        }
        if !COPY.iter().all(|name| folder.join(name).exists()) {
            assert!(bless(), "{COPY:?} are missing; EVERSEEN_BLESS=1 makes them");
            make_copy(COPY.map(|name| folder.join(name)));
        }
        folder
    })
}

fn make(name: &str, folder: &Path) {
    let work = TempDir::new().unwrap();
    let path = work.path().join(name);
    match name {
        "bloom.ever" | bound::BLOOM => {
            let store = options().capacity(3300).fpr(0.01).create(&path).unwrap();
            store
                .insert_batch(&(0..3300).map(key).collect::<Vec<_>>())
                .unwrap();
            store.commit_with(b"golden").unwrap();
            store.close().unwrap();
        }
        "scalable.ever" => {
            let options = options()
                .kind(Kind::Scalable)
                .hash(Hash::Xxh3)
                .capacity(2500)
                .fpr(0.02);
            let store = options.create(&path).unwrap();
            for numbers in [0..2500, 2500..5500] {
                store
                    .insert_batch(&numbers.map(key).collect::<Vec<_>>())
                    .unwrap();
                store.checkpoint().unwrap();
            }
            store.close().unwrap();
        }
        "counting.ever" | bound::COUNTING => {
            let options = options().kind(Kind::Counting).capacity(800).fpr(0.01);
            let store = options.create(&path).unwrap();
            let keys = |numbers: std::ops::Range<u64>| numbers.map(key).collect::<Vec<_>>();
            store.insert_batch(&keys(0..700)).unwrap();
            store.insert_batch(&keys(0..50)).unwrap();
            store.checkpoint().unwrap();
            store.remove_batch(&keys(600..650)).unwrap();
            let wrong = keys(5000..6000)
                .into_iter()
                .find(|key| store.contains(key).unwrap());
            store.exempt(&[wrong.unwrap()]).unwrap();
            store.close().unwrap();
        }
        golden_fingerprints::NAME | bound::FINGERPRINT => golden_fingerprints::make(&path),
        golden_runs::NAME => golden_runs::make(&path),
        golden_ages::NAME => return golden_ages::make(&path, folder),
        "labelled.ever" => {
            let options = options().transactional(true).label(LABEL);
            let store = options.capacity(3300).fpr(0.01).create(&path).unwrap();
            store
                .insert_batch(&(0..1000).map(key).collect::<Vec<_>>())
                .unwrap();
            store.commit_with(b"1000 done").unwrap();
            store.close().unwrap();
        }
        _ => {
            let options = options()
                .transactional(true)
                .hash(Hash::Murmur3)
                .writer("crawler");
            let store = options.capacity(3300).fpr(0.01).create(&path).unwrap();
            store
                .insert_batch(&(0..1500).map(key).collect::<Vec<_>>())
                .unwrap();
            store.commit_with(b"1500 done").unwrap();
            store
                .insert_batch(&(1500..2700).map(key).collect::<Vec<_>>())
                .unwrap();
            store.commit_with(b"2700 done").unwrap();
            store.checkpoint().unwrap();
            store
                .insert_batch(&(2700..3000).map(key).collect::<Vec<_>>())
                .unwrap();
            store.commit_with(b"3000 done").unwrap();
            // These were lost with the process.
            store
                .insert_batch(&(3000..3100).map(key).collect::<Vec<_>>())
                .unwrap();
            copy(&path, folder);
            return;
        }
    }
    copy(&path, folder);
}

fn make_copy([copy, delta]: [PathBuf; 2]) {
    let work = TempDir::new().unwrap();
    let options = options().transactional(true).capacity(3300).fpr(0.01);
    let store = options.create(work.path().join("store")).unwrap();
    let insert = |numbers: std::ops::Range<u64>| {
        let keys: Vec<_> = numbers.map(key).collect();
        store.insert_batch(&keys).unwrap();
    };
    insert(0..1000);
    store.commit_with(b"1000 done").unwrap();
    store.snapshot(&copy).unwrap();
    insert(1000..1500);
    store.commit_with(b"1500 done").unwrap();
    store.snapshot_since(&delta, &copy).unwrap();
}

/// A copy to work on: goldens are never opened in place.
pub(crate) fn golden(name: &str) -> (TempDir, PathBuf) {
    let work = TempDir::new().unwrap();
    let path = copy(&folder().join(name), work.path());
    (work, path)
}

fn answers(store: &Store) -> Vec<bool> {
    store
        .contains_batch(&(0..LOOKED_UP).map(key).collect::<Vec<_>>())
        .unwrap()
}

/// What a golden file must answer: how many keys were inserted, how many of those were new, how many
/// others are answered "seen", and the CRC of all answers as one byte each.
const EXPECTED: [(&str, usize, u64, usize, u32); 7] = [
    ("bloom.ever", 3300, 3300, 57, 1_836_208_359),
    ("scalable.ever", 5500, 5494, 5, 2_434_280_521),
    ("killed.ever", 3000, 2999, 21, 860_874_140),
    ("counting.ever", 600, 700, 71, 2_708_742_912),
    ("labelled.ever", 1000, 1000, 0, 43_253_939),
    // Made as those above, with the same seed.
    (bound::BLOOM, 3300, 3300, 57, 1_836_208_359),
    (bound::COUNTING, 600, 700, 71, 2_708_742_912),
];

#[test]
fn golden_files_answer_as_ever() {
    for (name, inserted, keys, wrong, crc) in EXPECTED {
        let (_work, path) = golden(name);
        let before = options().open_read_only(&path).unwrap();
        let found = answers(&before);
        drop(before);
        assert!(found[..inserted].iter().all(|found| *found), "{name}");
        let positives = found[inserted..].iter().filter(|found| **found).count();
        let bytes: Vec<_> = found.iter().map(|found| u8::from(*found)).collect();
        assert_eq!((positives, crc32(&[&bytes])), (wrong, crc), "{name}");
        // Opened for writing, with what that entails: the same.
        let store = options().open(&path).unwrap();
        assert!(answers(&store) == found, "{name}");
        assert!(store.verify().unwrap().is_ok());
        store.close().unwrap();
        // And closed. Keys that were in a log, which never errs, share bits in pages now.
        let store = options().open_read_only(&path).unwrap();
        let closed = answers(&store);
        assert!(
            found
                .iter()
                .zip(&closed)
                .all(|(before, after)| before <= after),
            "{name}"
        );
        assert!(closed == found || name == "killed.ever", "{name}");
        assert_eq!(store.stats().unwrap().keys, keys, "{name}");
        assert!(store.verify().unwrap().is_ok());
    }
}

/// What an upgrade is: a store of each kind, log and copy that an earlier build left is lived with further.
#[test]
fn golden_files_are_gone_on_with() {
    let mut full = Vec::new();
    for name in NAMES {
        let (_work, path) = golden(name);
        let store = options().open(&path).unwrap();
        let found = answers(&store);
        let keys = store.stats().unwrap().keys;
        let new: Vec<_> = (0..40).map(|number| key((1 << 40) + number)).collect();
        let mut left = new.len() as u64;
        let are_new = match store.insert_batch(&new) {
            Err(failed) if matches!(*failed.error, Error::Full { .. }) => {
                // It was left full, and still says so.
                full.push(name);
                continue;
            }
            inserted => inserted.unwrap(),
        };
        store.commit().unwrap();
        store.checkpoint().unwrap();
        let kind = store.stats().unwrap().kind;
        if matches!(kind, Kind::Counting | Kind::Fingerprint) && are_new[0] {
            assert!(store.remove(&new[0]).unwrap(), "{name}");
            store.commit().unwrap();
            left -= 1;
        }
        // A handle that ends without closing, as a killed program's.
        drop(store);
        let store = options().open(&path).unwrap();
        let after = answers(&store);
        let mut both = found.iter().zip(&after);
        assert!(both.all(|(before, after)| before <= after), "{name}");
        assert!(
            store
                .contains_batch(&new[1..])
                .unwrap()
                .iter()
                .all(|found| *found),
            "{name}"
        );
        let stats = store.stats().unwrap();
        // What was forgotten is counted until its pages are written.
        if stats.forgetting.is_none() {
            let came = stats.keys - keys;
            assert!(came <= left && came + 3 >= left, "{name}: {came} of {left}");
        }
        assert!(store.verify().unwrap().is_ok(), "{name}");
        store.close().unwrap();
    }
    assert_eq!(full, ["bloom.ever", bound::BLOOM]);
}

#[test]
fn golden_files_hold_what_was_put_in() {
    let (_work, path) = golden("bloom.ever");
    let stats = options().open(&path).unwrap().stats().unwrap();
    assert_eq!(
        (stats.kind, stats.hash, stats.capacity),
        (Kind::Bloom, Hash::Highway, Some(3300))
    );
    assert_eq!(
        (stats.generation, stats.log_bytes, stats.transactional),
        (3, 0, false)
    );
    assert_eq!(
        (stats.commits[0].sequence, stats.commits[0].tag.as_slice()),
        (1, &b"golden"[..])
    );

    let (_work, path) = golden("scalable.ever");
    let stats = options().open(&path).unwrap().stats().unwrap();
    assert_eq!(
        (stats.kind, stats.hash, stats.capacity),
        (Kind::Scalable, Hash::Xxh3, None)
    );
    let keys: Vec<_> = stats
        .layers
        .iter()
        .map(|layer| (layer.capacity, layer.keys))
        .collect();
    assert_eq!(keys, [(2500, 2500), (5000, 2994)]);

    let (_work, path) = golden("killed.ever");
    let store = options().open(&path).unwrap();
    let last = store.last_commit("crawler").unwrap().unwrap();
    assert_eq!((last.sequence, last.tag.as_slice()), (3, &b"3000 done"[..]));
    let stats = store.stats().unwrap();
    assert_eq!(
        (stats.hash, stats.transactional, stats.keys),
        (Hash::Murmur3, true, 2999)
    );
    assert!(stats.log_bytes > 4096);

    let (_work, path) = golden("counting.ever");
    let store = options().open(&path).unwrap();
    let stats = store.stats().unwrap();
    assert_eq!(
        (stats.kind, stats.keys, store.stats().unwrap().exempt),
        (Kind::Counting, 700, 1)
    );
    let count = |number| store.count_estimate(key(number)).unwrap();
    assert!((0..50).all(|number| count(number) >= 2));
    assert!((50..600).chain(650..700).all(|number| count(number) >= 1));
    assert!((600..650).filter(|number| count(*number) == 0).count() > 40);

    let (_work, path) = golden("labelled.ever");
    let store = options().open(&path).unwrap();
    assert_eq!(store.label(), Some(LABEL));
    let commits = store.stats().unwrap().commits;
    assert_eq!(commits.len(), 1);
    assert_eq!(
        (commits[0].sequence, commits[0].tag.as_slice()),
        (1, &b"1000 done"[..])
    );
}

#[test]
fn a_golden_delta_brings_its_copy_up_to_date() {
    let (work, path) = golden(COPY[0]);
    let delta = work.path().join(COPY[1]);
    std::fs::copy(folder().join(COPY[1]), &delta).unwrap();
    for (inserted, tag) in [(1000, b"1000 done"), (1500, b"1500 done")] {
        let store = options().open_read_only(&path).unwrap();
        let found = answers(&store);
        assert!(found[..inserted].iter().all(|found| *found));
        let wrong = found[inserted..].iter().filter(|found| **found).count();
        assert!(wrong < 10, "{wrong}");
        let commits = store.stats().unwrap().commits;
        assert_eq!(commits[0].tag, tag);
        assert!(store.verify().unwrap().is_ok());
        drop(store);
        options().apply(&delta, &path).unwrap();
    }
}

#[test]
fn the_reader_answers_for_golden_files() {
    for name in NAMES {
        let (_work, path) = golden(name);
        let store = options().open_read_only(&path).unwrap();
        let hasher = KeyHasher::new(store.stats().unwrap().hash, &seed());
        let hashes: Vec<_> = (0..LOOKED_UP)
            .map(|number| hasher.hash(&key(number)))
            .collect();
        assert!(
            reader::answers_at(&path, &hashes, true, Some(golden_ages::NOW)) == answers(&store),
            "{name}"
        );
    }
}

/// The numbers in a cell such as `0..4000, 4900..5000`.
fn numbers(cell: &str) -> Vec<u64> {
    let ranges = cell.split(", ").filter(|range| range.contains(".."));
    let ends = ranges.map(|range| {
        let (start, end) = range.split_once("..").unwrap();
        start.parse().unwrap()..end.parse().unwrap()
    });
    ends.flatten().collect()
}

/// The keys that the dumps name are those of the golden files.
#[test]
fn golden_files_hold_the_keys_that_are_named_beside_their_dumps() {
    let rows = table(&section("Golden files"), &["file", "kind", "hash", "keys"]);
    let mut named: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    named.sort_unstable();
    let mut all = [&NAMES[..], &COPY[..1]].concat();
    all.sort_unstable();
    assert_eq!(named, all);
    for row in &rows {
        let (_work, path) = golden(row[0].trim_matches('`'));
        let store = options().open_read_only(&path).unwrap();
        let stats = store.stats().unwrap();
        assert_eq!((stats.kind.name(), stats.hash.name()), (&*row[1], &*row[2]));
        let keys: Vec<_> = numbers(&row[3]).into_iter().map(key).collect();
        let found = store.contains_batch(&keys).unwrap();
        assert!(found.iter().all(|found| *found), "{}", row[0]);
        // A key that is mistaken for a false positive is not among those that count, and no other may be missing.
        let all = answers(&store).iter().filter(|found| **found).count();
        assert!((keys.len()..keys.len() + 80).contains(&all), "{}", row[0]);
    }
}

#[test]
fn golden_files_are_small() {
    let entries = std::fs::read_dir(folder()).unwrap();
    let sizes = entries.map(|entry| entry.unwrap().metadata().unwrap().len());
    assert!(sizes.sum::<u64>() < 2700 << 10);
}
