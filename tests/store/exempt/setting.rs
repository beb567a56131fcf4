//! Stores with false positives, and keys that are some.

use std::path::PathBuf;

use everseen::testing::Options;
use everseen::{Kind, Store};
use tempfile::TempDir;

use crate::support::files::{place, small};
use crate::support::numbers::key;

/// Keys from here on are inserted by nobody until a test does.
pub const ABSENT: u64 = 1 << 40;

/// A store of a kind that is wrong often.
pub fn options(kind: Kind) -> Options {
    let options = small().kind(kind).fpr(0.2);
    match kind {
        Kind::Scalable => options.capacity(300),
        _ => options.capacity(25_000),
    }
}

pub fn hashes(numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    numbers.into_iter().map(key).collect()
}

/// A store with so many keys in its pages, open.
pub fn filled(options: &Options, count: u64) -> (TempDir, PathBuf, Store) {
    let (folder, path) = place();
    let store = options.create(&path).unwrap();
    for part in hashes(0..count).chunks(1000) {
        store.insert_batch(part).unwrap();
        store.commit().unwrap();
    }
    store.checkpoint().unwrap();
    (folder, path, store)
}

/// So many keys that were never inserted, and that the store takes for seen.
pub fn false_positives(store: &Store, count: usize) -> Vec<u64> {
    let all = hashes(ABSENT..ABSENT + 400_000);
    let mut found = Vec::new();
    for part in all.chunks(4096) {
        let seen = store.contains_batch(part).unwrap();
        let seen = part.iter().zip(seen).filter(|(_, seen)| *seen);
        found.extend(seen.map(|(key, _)| *key));
        if found.len() >= count {
            found.truncate(count);
            return found;
        }
    }
    panic!("{} false positives of {count}", found.len());
}

/// The answers for keys, asked one by one and together, which must agree.
#[track_caller]
pub fn seen(store: &Store, keys: &[u64]) -> Vec<bool> {
    let together = store.contains_batch(keys).unwrap();
    for (key, answer) in keys.iter().zip(&together) {
        assert_eq!(store.contains(*key).unwrap(), *answer);
    }
    together
}

#[track_caller]
pub fn assert_seen(store: &Store, keys: &[u64], expected: bool) {
    let answers = seen(store, keys);
    let other = answers.iter().filter(|answer| **answer != expected).count();
    assert_eq!(other, 0, "of {} keys, expected {expected}", keys.len());
}

/// The hashes that are exempt, as the store tells them.
pub fn listed(store: &Store) -> Vec<u64> {
    let all: Vec<_> = store
        .exemptions()
        .map(|hashed| hashed.unwrap().bits())
        .collect();
    assert_eq!(all.len() as u64, store.stats().unwrap().exempt);
    all
}
