//! The promised rates and sizes, measured on real stores (invariants I1 and I11).
//!
//! Seeds and keys are fixed and checkpoints run on the inserting thread, so every figure is the same in every run: a
//! test that passes once passes always, until the code changes. (The one run on background checkpoints, the largest,
//! says so.) The long runs and the figures seen are in `docs/evidence.md`.

mod every_size;
mod fingerprints;
mod fullness;
mod growing;
mod large;
mod planned;
mod probing;

use crate::support::numbers::key;
use everseen::Store;

/// The hash key of all stores here.
const SEED: [u8; 32] = [
    0x45, 0x76, 0x65, 0x72, 0x73, 0x65, 0x65, 0x6e, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
];

/// Numbers from here on are of keys that no test inserts.
const ABSENT: u64 = 1 << 48;

/// Keys looked up with one call.
const BATCH: u64 = 1 << 15;

/// Processors used at once.
const THREADS: u64 = 2;

/// How many of `count` keys the store says it has, where `key` makes the hash of a number.
fn count_found(store: &Store, count: u64, key: impl Fn(u64) -> u64 + Sync) -> u64 {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let key = &key;
                scope.spawn(move || {
                    let part = count * thread / THREADS..count * (thread + 1) / THREADS;
                    let mut found = 0;
                    let mut hashes = Vec::new();
                    for start in part.clone().step_by(BATCH as usize) {
                        hashes.clear();
                        hashes.extend((start..part.end.min(start + BATCH)).map(key));
                        let answers = store.contains_batch(&hashes).unwrap();
                        found += answers.into_iter().filter(|answer| *answer).count() as u64;
                    }
                    found
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    })
}

/// How many of `count` keys that were never inserted the store says it has.
fn count_false(store: &Store, count: u64) -> u64 {
    count_found(store, count, |number| key(ABSENT + number))
}

/// Inserts the keys of a range of numbers and answers how many were new.
fn insert(store: &Store, numbers: std::ops::Range<u64>) -> u64 {
    let mut new = 0;
    let mut hashes = Vec::new();
    for start in numbers.clone().step_by(BATCH as usize) {
        hashes.clear();
        hashes.extend((start..numbers.end.min(start + BATCH)).map(key));
        let verdicts = store.insert_batch(&hashes).unwrap();
        new += verdicts.into_iter().filter(|new| *new).count() as u64;
    }
    new
}

/// How many standard deviations `hits` in `queries` lie above what `rate` leads to expect.
fn deviation(hits: u64, queries: u64, rate: f64) -> f64 {
    let queries = queries as f64;
    (hits as f64 - queries * rate) / (queries * rate * (1.0 - rate)).sqrt()
}
