//! How a growing store fills its layers.

use everseen::{Kind, LayerStats, Store};

use crate::support::files::{keys, place, small};

/// Layers of a store that took keys one batch at a time and committed after each `commit_every` of them.
fn layers(transactional: bool, commit_every: usize) -> Vec<LayerStats> {
    let (_folder, path) = place();
    let options = small()
        .kind(Kind::Scalable)
        .capacity(5000)
        .buffer(1 << 18)
        .fpr(1e-3)
        .transactional(transactional);
    let made = options.create(&path).unwrap();
    for part in keys(0..150_000).chunks(commit_every) {
        for batch in part.chunks(500) {
            made.insert_batch(batch).unwrap();
        }
        made.commit().unwrap();
    }
    made.close().unwrap();
    let layers = Store::open(&path).unwrap().stats().unwrap().layers;
    assert!(layers.len() > 3, "{layers:?}");
    layers
}

/// A commit may bring more keys than the layer has room for; these would all go into a new one.
#[test]
fn layers_are_filled_whatever_a_commit_brings() {
    for (transactional, commit_every) in [(false, 5000), (true, 2000), (true, 3000)] {
        let layers = layers(transactional, commit_every);
        for layer in &layers[1..layers.len() - 1] {
            let least = layer.capacity / 8 * 7;
            assert!(
                layer.keys >= least && layer.keys <= layer.capacity,
                "{commit_every}: {layers:?}"
            );
        }
    }
}

/// A layer with room for three more keys needs no checkpoint while all keys of the buffer are uncommitted.
#[test]
fn a_transaction_may_be_larger_than_what_is_left_of_a_layer() {
    let (_folder, path) = place();
    let options = small().kind(Kind::Scalable).capacity(16);
    let made = options.transactional(true).create(&path).unwrap();
    made.insert_batch(&keys(0..13)).unwrap();
    made.commit().unwrap();
    made.checkpoint().unwrap();
    for part in [13..53, 53..108, 108..163] {
        let verdicts = made.insert_batch(&keys(part)).unwrap();
        assert!(verdicts.into_iter().all(|new| new));
    }
    made.commit().unwrap();
    made.close().unwrap();
    assert_eq!(Store::open(&path).unwrap().stats().unwrap().keys, 163);
}
