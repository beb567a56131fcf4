//! A store that grows from a thousand keys to ten million.

use everseen::{Kind, Options};

use crate::numbers::key;
use crate::unsynced::Unsynced;
use crate::{SEED, count_false, count_found, insert};

const RATE: f64 = 1e-3;

/// Grows a store to `keys` keys and measures at each size on the way.
fn grow(buffer: u64, keys: u64, least_layers: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = Options::new()
        .kind(Kind::Scalable)
        .capacity(1000)
        .fpr(RATE)
        .seed(SEED)
        .buffer(buffer)
        .storage(Unsynced::new());
    let store = options.create(&path).unwrap();
    let (mut inserted, mut new) = (0, 0);
    let mut size = 1000;
    while inserted < keys {
        size = keys.min(size);
        new += insert(&store, inserted..size);
        inserted = size;
        // The whole store, also on the way: nothing waits in the buffer.
        store.checkpoint().unwrap();
        let queries = if size == keys { 20_000_000 } else { 2_000_000 };
        let hits = count_false(&store, queries);
        let stats = store.stats();
        assert_eq!(stats.keys, new);
        println!(
            "buffer {buffer}: {size} keys in {} layers, {:.2} bits a key, {:.4e} measured, {:.4e} expected",
            stats.layers.len(),
            stats.bytes as f64 * 8.0 / size as f64,
            hits as f64 / queries as f64,
            stats.fpr_now,
        );
        assert!(hits as f64 <= queries as f64 * RATE, "{hits} of {queries} at {size}");
        let deviation = crate::deviation(hits, queries, stats.fpr_now);
        assert!(deviation.abs() <= 4.0, "{deviation:+.2} deviations at {size}");
        size = size * 17 / 10;
    }
    store.close().unwrap();
    let store = options.open_read_only(&path).unwrap();
    assert_eq!(count_found(&store, keys, key), keys, "a false negative");
    let layers = store.stats().layers;
    assert!(layers.len() >= least_layers, "{} layers", layers.len());
    for layer in layers {
        assert!(layer.keys <= layer.capacity, "{layer:?}");
    }
}

#[test]
fn grows_to_a_million_keys_with_the_least_buffer() {
    grow(everseen::LEAST_BUFFER, 1_000_000, 8);
}

#[test]
fn grows_to_ten_million_keys_with_a_small_buffer() {
    grow(2 << 20, 10_000_000, 7);
}

#[test]
fn grows_to_ten_million_keys_with_the_default_buffer() {
    grow(everseen::DEFAULT_BUFFER, 10_000_000, 2);
}

#[test]
#[ignore = "minutes; cargo test --release --test rates -- --ignored --nocapture long_grows"]
fn long_grows_to_ten_million_keys_with_the_least_buffer() {
    grow(everseen::LEAST_BUFFER, 10_000_000, 11);
}
