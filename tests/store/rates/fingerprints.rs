//! The rate of a store of fingerprints is their number over the space.

use everseen::Kind;
use everseen::testing::Options;

use super::{SEED, count_false, deviation, insert};
use crate::support::unsynced::Unsynced;

/// Fills a store of a space of 2^`space_log2` with keys, and asks for absent ones.
fn measure(space_log2: i32, keys: u64, asked: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let fpr = 2_f64.powi(-16);
    let options = Options::new()
        .kind(Kind::Fingerprint)
        .grows_to(1 << (space_log2 - 16))
        .fpr(fpr)
        .seed(SEED)
        .background(false)
        .storage(Unsynced::new());
    let store = options.create(&path).unwrap();
    let space = 2_f64.powi(space_log2);
    let held = insert(&store, 0..keys);
    store.close().unwrap();
    let store = options.open(&path).unwrap();
    let stats = store.stats().unwrap();
    assert_eq!(stats.keys, held);
    let rate = held as f64 / space;
    assert!(
        (stats.fpr_now / rate - 1.0).abs() < 1e-9,
        "{}",
        stats.fpr_now
    );
    let hits = count_false(&store, asked);
    let sigmas = deviation(hits, asked, rate);
    let expected = asked as f64 * rate;
    println!(
        "{held} fingerprints of {keys} keys in a space of 2^{space_log2}: {hits} of {asked} absent keys are seen, \
         {expected:.1} expected, {sigmas:+.2} standard deviations"
    );
    assert!(sigmas.abs() < 3.0, "{sigmas}");
}

#[test]
fn a_store_of_fingerprints_is_wrong_as_often_as_its_space_says() {
    measure(33, 120_000, 20_000_000);
}

#[test]
#[ignore = "minutes; cargo test --release --test store -- --ignored --nocapture long_ten_million_fingerprints"]
fn long_ten_million_fingerprints() {
    measure(44, 10_000_000, 1_000_000_000);
}
