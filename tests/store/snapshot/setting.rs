//! Stores to copy, and how two files are held against each other.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{Kind, Store};
use tempfile::TempDir;

use crate::support::files::{key, place, small};

/// A kind whose pages are overwritten, one that grows by layers, and one of segments.
pub const KINDS: [Kind; 3] = [Kind::Bloom, Kind::Scalable, Kind::Fingerprint];

/// A store of a kind that is not made yet: some two hundred pages, layers that grow from two, or a segment of a few pages.
pub fn options(kind: Kind) -> Options {
    let options = small().kind(kind).fpr(1e-3);
    match kind {
        Kind::Scalable => options.capacity(4000),
        _ => options.capacity(400_000),
    }
}

/// A store with the keys of these numbers, open.
pub fn store(options: &Options, numbers: std::ops::Range<u64>) -> (TempDir, PathBuf, Store) {
    let (folder, path) = place();
    let store = options.create(&path).unwrap();
    insert(&store, numbers);
    (folder, path, store)
}

pub fn insert(store: &Store, numbers: std::ops::Range<u64>) {
    let keys: Vec<_> = numbers.map(key).collect();
    store.insert_batch(&keys).unwrap();
}

/// Fails unless two files are the same, byte for byte.
#[track_caller]
pub fn assert_same(a: &Path, b: &Path) {
    let (left, right) = (fs::read(a).unwrap(), fs::read(b).unwrap());
    assert_eq!(left.len(), right.len(), "lengths");
    let differs = left.iter().zip(&right).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the first byte that differs");
}

/// Fails unless the file is a clean store that has all keys of these numbers, and no log beside it.
#[track_caller]
pub fn assert_whole(path: &Path, numbers: std::ops::Range<u64>) {
    let copy = Options::new().open_read_only(path).unwrap();
    assert!(copy.verify().unwrap().is_ok());
    let keys: Vec<_> = numbers.map(key).collect();
    let found = copy.contains_batch(&keys).unwrap();
    assert_eq!(found.iter().position(|found| !found), None, "a key is gone");
}
