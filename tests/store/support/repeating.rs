//! Keys of which many repeat, in stores whose buffers rotate within a few thousand of them.

use std::collections::HashSet;

use everseen::hash::{HashedKey, KeyHasher};
use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Hash, Store};

/// Draws numbers that stand for keys.
pub fn numbers(seed: u64, keys: usize) -> Vec<u64> {
    let hasher = KeyHasher::new(Hash::Xxh3, &[7; 32]);
    let draw = |number| hasher.mix(seed.wrapping_add(number)) % 30_000;
    (0..keys as u64).map(draw).collect()
}

pub fn key(store: &Store, number: u64) -> HashedKey {
    store.hasher().key(&number.to_le_bytes())
}

/// Returns the options of a store whose buffers take some four thousand keys. At its rate none of these keys is a false
/// positive.
pub fn options() -> Options {
    Options::new()
        .capacity(100_000)
        .fpr(1e-9)
        .seed([7; 32])
        .buffer(LEAST_BUFFER)
}

/// Commits for `store`, since its keys would be pending otherwise; then inserts keys through another handle and commits
/// them, in the twin as well.
pub fn insert_by_other(store: &Store, other: &Store, numbers: &[u64], twin: &mut HashSet<u64>) {
    store.commit().unwrap();
    for some in numbers.chunks(400) {
        for number in some {
            let is_new = other.insert(number.to_le_bytes()).unwrap();
            assert_eq!(is_new, twin.insert(*number), "key {number}");
        }
        other.commit().unwrap();
    }
}
