//! A store that holds as many keys as it was made for: a million (half of it by default), ten million in the long run.

use everseen::Store;
use everseen::sizing::{Plan, expected_rate, ideal_bits_per_key};
use everseen::testing::Options;

use super::{BATCH, SEED, THREADS, deviation};
use crate::support::share::{all_or, all_some_or};

const MILLION: u64 = 1_000_000;

/// A million with `EVERSEEN_ALL=1`.
fn keys() -> u64 {
    all_or(MILLION, MILLION / 2)
}

/// The bytes of a key, as a user would have them.
fn url(number: u64) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut url = *b"https://example.org/000000000000";
    for (place, byte) in url[20..].iter_mut().rev().enumerate() {
        *byte = DIGITS[(number >> (4 * place) & 15) as usize];
    }
    url
}

fn count_found(store: &Store, first: u64, count: u64) -> u64 {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let part = count * thread / THREADS..count * (thread + 1) / THREADS;
                    let mut found = 0;
                    for start in part.clone().step_by(BATCH as usize) {
                        let batch = start..part.end.min(start + BATCH);
                        let keys: Vec<_> = batch.map(|number| url(first + number)).collect();
                        let answers = store.contains_batch(&keys).unwrap();
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

/// Fills a store, opens it again, and holds keys, rate and size against the plan.
fn check(keys: u64, rate: f64, queries: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = Options::new()
        .capacity(keys)
        .fpr(rate)
        .seed(SEED)
        // It is the filter whose size is planned.
        .measured(false)
        .background(false);
    let store = options.create(&path).unwrap();
    let mut new = 0;
    for start in (0..keys).step_by(BATCH as usize) {
        let batch: Vec<_> = (start..keys.min(start + BATCH)).map(url).collect();
        let verdicts = store.insert_batch(&batch).unwrap();
        new += verdicts.into_iter().filter(|new| *new).count() as u64;
    }
    store.close().unwrap();

    let bytes = std::fs::metadata(&path).unwrap().len();
    let ideal = keys as f64 * ideal_bits_per_key(rate) / 8.0;
    let most = ideal * 1.015 + f64::from(128 << 10);
    assert!(bytes as f64 <= most, "{bytes} bytes, at most {most}");

    let store = Options::new().open_read_only(&path).unwrap();
    assert_eq!(store.stats().unwrap().keys, new);
    assert_eq!(count_found(&store, 0, keys), keys, "a false negative");

    let plan = Plan::for_rate(keys, rate).unwrap();
    let held = expected_rate(new, plan.pages, plan.probes);
    let hits = count_found(&store, super::ABSENT >> 4, queries);
    let from_plan = deviation(hits, queries, plan.fpr);
    let from_held = deviation(hits, queries, held);
    println!(
        "p {rate:e}: {hits} of {queries} absent keys found, {:.4e}; planned {:.4e} ({from_plan:+.2} deviations), with \
         the {new} keys that were new {held:.4e} ({from_held:+.2}); {bytes} bytes, beyond 128 KiB {:+.3} % over the ideal",
        hits as f64 / queries as f64,
        plan.fpr,
        ((bytes as f64 - f64::from(128 << 10)) / ideal - 1.0) * 100.0,
    );
    assert!(plan.fpr <= rate);
    assert!(from_plan.abs() <= 3.0 && from_held.abs() <= 3.0);
}

#[test]
fn a_million_keys_at_one_percent() {
    check(MILLION, 1e-2, 1_000_000);
}

#[test]
fn planned_keys_at_one_in_a_thousand() {
    check(keys(), 1e-3, all_some_or(10_000_000, 3_000_000, 1_000_000));
}

#[test]
fn planned_keys_at_one_in_ten_thousand() {
    check(keys(), 1e-4, all_some_or(30_000_000, 8_000_000, 2_000_000));
}

#[test]
fn planned_keys_at_one_in_a_million() {
    check(keys(), 1e-6, all_some_or(50_000_000, 12_000_000, 3_000_000));
}

#[test]
#[ignore = "minutes; cargo test --release --test store -- --ignored --nocapture long_ten_million"]
fn long_ten_million_keys_at_all_rates() {
    check(10 * MILLION, 1e-2, 1_000_000);
    check(10 * MILLION, 1e-3, 10_000_000);
    check(10 * MILLION, 1e-4, 100_000_000);
    check(10 * MILLION, 1e-6, 2_000_000_000);
}
