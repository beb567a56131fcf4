//! A store that grows from a thousand keys to ten million.

use everseen::Kind;
use everseen::testing::Options;

use super::{SEED, count_false, count_found, insert};
use crate::support::numbers::key;
use crate::support::share::{all_or, all_some_or};
use crate::support::unsynced::Unsynced;

const RATE: f64 = 1e-3;

/// Grows a store to `keys` keys, by whatever checkpoints its buffer asks for, and measures at sizes on the way.
fn grow(buffer: u64, keys: u64, least_layers: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = Options::new()
        .kind(Kind::Scalable)
        .capacity(1000)
        .fpr(RATE)
        .seed(SEED)
        .buffer(buffer)
        // Not on a thread of its own, so that what is in the pages when it is measured is settled.
        .background(false)
        .storage(Unsynced::new());
    let store = options.create(&path).unwrap();
    let (mut inserted, mut new) = (0, 0);
    let mut size = 1000;
    while inserted < keys {
        size = keys.min(size);
        new += insert(&store, inserted..size);
        inserted = size;
        let queries = all_or(2_000_000, 500_000);
        let hits = count_false(&store, queries);
        let stats = store.stats().unwrap();
        assert_eq!(stats.keys, new);
        println!(
            "buffer {buffer}: {size} keys in {} layers, {:.4e} measured, {:.4e} expected",
            stats.layers.len(),
            hits as f64 / queries as f64,
            stats.fpr_now,
        );
        assert!(
            hits as f64 <= queries as f64 * RATE,
            "{hits} of {queries} at {size}"
        );
        let deviation = super::deviation(hits, queries, stats.fpr_now);
        // Nothing is expected while all keys are in the buffer.
        let expected = stats.fpr_now > 0.0;
        assert!(
            if expected {
                deviation.abs() <= 4.0
            } else {
                hits == 0
            },
            "{deviation:+.2} at {size}"
        );
        size *= 3;
    }
    store.close().unwrap();
    let store = options.open_read_only(&path).unwrap();
    assert_eq!(count_found(&store, keys, key), keys, "a false negative");
    let stats = store.stats().unwrap();
    let layers = &stats.layers;
    let room: u64 = layers.iter().map(|layer| layer.capacity).sum();
    let bits = stats.bytes as f64 * 8.0;
    println!(
        "buffer {buffer}: closed with {keys} keys in {} layers, {:.2} bits a key (whole file; {:.2} once it holds the \
         {room} that it has room for), rate expected {:.4e}",
        layers.len(),
        bits / keys as f64,
        bits / room as f64,
        stats.fpr_now,
    );
    assert!(layers.len() >= least_layers);
    for layer in layers {
        assert!(layer.keys <= layer.capacity, "{layer:?}");
    }
    let queries = all_some_or(10_000_000, 3_000_000, 1_000_000);
    let hits = count_false(&store, queries);
    println!("buffer {buffer}: {hits} of {queries} absent keys found when closed");
    assert!(hits as f64 <= queries as f64 * RATE);
}

#[test]
fn grows_with_the_least_buffer() {
    let (keys, layers) = all_or((1_000_000, 8), (300_000, 6));
    grow(everseen::testing::LEAST_BUFFER, keys, layers);
}

#[test]
fn grows_with_a_small_buffer() {
    let (keys, layers) = all_or((3_000_000, 5), (1_000_000, 4));
    grow(2 << 20, keys, layers);
}

#[test]
#[ignore = "minutes; cargo test --release --test store -- --ignored --nocapture long_grows"]
fn long_grows_to_ten_million_keys_with_the_least_buffer() {
    grow(everseen::testing::LEAST_BUFFER, 10_000_000, 11);
}

#[test]
#[ignore = "a minute; cargo test --release --test store -- --ignored --nocapture long_grows"]
fn long_grows_to_ten_million_keys_with_a_small_buffer() {
    grow(2 << 20, 10_000_000, 7);
}

#[test]
#[ignore = "a minute; cargo test --release --test store -- --ignored --nocapture long_grows"]
fn long_grows_to_ten_million_keys_with_the_default_buffer() {
    grow(everseen::OpenOptions::DEFAULT_BUFFER, 10_000_000, 2);
}
