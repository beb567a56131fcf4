//! How full and how wrong a store says it is, by its counts and by its bits, against the truth.

use std::path::Path;

use everseen::sizing::{Growth, PAGE_BITS, PAGE_BYTES, expected_rate, hash_floor};
use everseen::testing::Options;
use everseen::{Error, Fullness, Kind, OnDamage, Store, VerifyReport};

use super::{SEED, count_false, deviation, insert};

const PAGES_OFFSET: usize = 131_072;

fn options() -> Options {
    Options::new().seed(SEED).background(false)
}

/// The slow twin: keys and rate of a store of one layer, from the bytes of its file.
fn by_hand(path: &Path, pages: usize, probes: u32) -> (f64, f64) {
    let file = std::fs::read(path).unwrap();
    let (mut set, mut rates) = (0.0, 0.0);
    for page in file[PAGES_OFFSET..].chunks(PAGE_BYTES as usize).take(pages) {
        let ones: u32 = page[16..].iter().map(|byte| byte.count_ones()).sum();
        set += f64::from(ones);
        // A line has 64 bytes, the first one 48 behind the header; runs are of three up to 20 probes.
        assert!(probes <= 20);
        let mut run = 0.0;
        for (line, bytes) in page.chunks(64).enumerate() {
            let bytes = if line == 0 { &bytes[16..] } else { bytes };
            let size = 8.0 * bytes.len() as f64;
            let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
            let x = f64::from(ones);
            let three = x * (x - 1.0) * (x - 2.0) / (size * (size - 1.0) * (size - 2.0));
            run += size / PAGE_BITS as f64 * three;
        }
        let one = f64::from(ones) / PAGE_BITS as f64;
        rates += run.powi(probes as i32 / 3) * one.powi(probes as i32 % 3);
    }
    let bits = pages as f64 * PAGE_BITS as f64;
    let keys = -bits / f64::from(probes) * (1.0 - set / bits).ln();
    (keys, rates / pages as f64)
}

fn assert_near(got: f64, expected: f64, tolerance: f64) {
    let off = (got / expected - 1.0).abs();
    assert!(
        off <= tolerance,
        "{got}, expected {expected} to {tolerance}"
    );
}

#[test]
fn the_bits_tell_how_many_keys_there_are_and_how_wrong_they_make_it() {
    for (capacity, rate) in [(200_000, 0.1), (200_000, 0.01), (500_000, 1e-4)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = options()
            .capacity(capacity)
            .fpr(rate)
            .create(&path)
            .unwrap();
        let mut shown = 0;
        // Empty, nearly empty, half full and full, all of it in the pages.
        for until in [0, capacity / 100, capacity / 2, capacity] {
            insert(&store, shown..until);
            shown = until;
            store.checkpoint().unwrap();
            let (stats, report) = (store.stats().unwrap(), store.verify().unwrap());
            let [layer] = report.layers[..] else {
                panic!("{report:?}");
            };
            let of = stats.layers[0];
            assert_eq!((layer.pages, layer.good), (of.pages, of.pages));
            assert_eq!(layer.bits_set, report.bits_set);
            assert_eq!(
                (report.keys_estimate(), report.fpr()),
                (layer.keys, layer.fpr)
            );
            if until == 0 {
                assert_eq!((layer.bits_set, layer.keys, layer.fpr), (0, 0.0, 0.0));
                continue;
            }
            let (keys, fpr) = by_hand(&path, of.pages as usize, of.k);
            assert_near(layer.keys, keys, 1e-3);
            assert_near(layer.fpr, fpr + hash_floor(layer.keys as u64), 1e-6);
            println!(
                "{shown} keys at {rate}, {} new: {:.0} estimated; {:.5e} by the bits, {:.5e} by the count",
                stats.keys, layer.keys, layer.fpr, stats.fpr_now
            );
            // Those that were wrongly taken for seen are among them: their bits were set.
            assert_near(layer.keys, shown as f64, 0.002);
            // The rate goes with a high power of the fill, and differs from one store to the next: the more, the
            // fewer lines there are that a second run of probes has fallen on.
            let luck = if until == capacity / 100 { 0.2 } else { 0.05 };
            assert_near(layer.fpr, stats.fpr_now, luck);
            if rate > 0.001 && until == capacity {
                let queries = 2_000_000;
                let hits = count_false(&store, queries);
                let deviation = deviation(hits, queries, layer.fpr);
                assert!(
                    deviation.abs() <= 3.0,
                    "{hits} hits, {deviation:+.2} deviations"
                );
            }
        }
    }
}

#[test]
fn layers_are_told_one_by_one_and_together() {
    let folder = tempfile::tempdir().unwrap();
    let options = options().kind(Kind::Scalable).capacity(10_000).fpr(0.01);
    let store = options.create(folder.path().join("store")).unwrap();
    assert_eq!(store.verify().unwrap().layers, []);
    for start in (0..100_000).step_by(20_000) {
        insert(&store, start..start + 20_000);
        store.checkpoint().unwrap();
    }
    let (stats, report) = (store.stats().unwrap(), store.verify().unwrap());
    assert!(stats.layers.len() > 2);
    assert_eq!(report.layers.len(), stats.layers.len());
    for (layer, of) in report.layers.iter().zip(&stats.layers) {
        assert_near(layer.keys, of.keys as f64, 0.01);
    }
    assert_near(report.keys_estimate(), stats.keys as f64, 0.005);
    let absent: f64 = report.layers.iter().map(|layer| 1.0 - layer.fpr).product();
    assert_near(report.fpr(), 1.0 - absent, 1e-9);
    let queries = 2_000_000;
    let deviation = deviation(count_false(&store, queries), queries, report.fpr());
    assert!(deviation.abs() <= 3.0, "{deviation:+.2} deviations");
}

/// What is damaged has no part in the estimate; what a repair has filled makes the store wrong, and only the bits tell.
#[test]
fn damaged_and_filled_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = options().capacity(100_000).fpr(1e-4);
    let store = options.create(&path).unwrap();
    insert(&store, 0..100_000);
    store.close().unwrap();
    let sound = Store::open(&path).unwrap().verify().unwrap();

    let mut file = std::fs::read(&path).unwrap();
    file[PAGES_OFFSET + 3 * PAGE_BYTES as usize + 1000] ^= 1;
    std::fs::write(&path, file).unwrap();
    let store = options.open(&path).unwrap();
    let report = store.verify().unwrap();
    let layer = report.layers[0];
    assert_eq!((layer.good, report.damaged.len()), (layer.pages - 1, 1));
    assert!(layer.bits_set < sound.bits_set);
    assert_near(layer.keys, 1e5, 0.01);
    assert_near(layer.fpr, sound.fpr(), 0.02);

    store.repair(OnDamage::Seen).unwrap();
    let report = store.verify().unwrap();
    let pages = layer.pages as f64;
    let filled = 1.0 / pages + layer.fpr * (pages - 1.0) / pages;
    assert_near(report.fpr(), filled, 1e-6);
    assert!(report.fpr() > 50.0 * store.stats().unwrap().fpr_now);
    store.close().unwrap();
}

/// All pages bad: nothing is known, and nothing is divided by it.
#[test]
fn a_layer_without_a_good_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = options().capacity(1000).create(&path).unwrap();
    insert(&store, 0..1000);
    store.close().unwrap();
    let mut file = std::fs::read(&path).unwrap();
    for page in file[PAGES_OFFSET..].chunks_mut(PAGE_BYTES as usize) {
        page[100] ^= 1;
    }
    std::fs::write(&path, file).unwrap();
    let report: VerifyReport = Store::open(&path).unwrap().verify().unwrap();
    let layer = report.layers[0];
    assert_eq!(
        (layer.good, layer.bits_set, layer.keys, layer.fpr),
        (0, 0, 0.0, 0.0)
    );
    assert_eq!(report.damaged.len() as u64, layer.pages);
}

fn told(store: &Store) -> (u64, u64, u64) {
    let Fullness { keys, limit, .. } = store.fullness().unwrap();
    let stats = store.stats().unwrap();
    let left = store.fullness().unwrap().left();
    assert_eq!(
        (stats.keys, stats.key_limit, stats.keys_left),
        (keys, limit, left)
    );
    (keys, limit, left)
}

#[test]
fn a_store_tells_how_many_keys_it_still_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fixed");
    let store = options().capacity(1000).create(&path).unwrap();
    assert_eq!(told(&store), (0, 1000, 1000));
    assert_eq!(store.fullness().unwrap().share(), 0.0);
    insert(&store, 0..900);
    // In the buffer, in the pages, and both.
    assert_eq!(told(&store), (900, 1000, 100));
    store.checkpoint().unwrap();
    assert_eq!(told(&store), (900, 1000, 100));
    assert_eq!(store.fullness().unwrap().share(), 0.9);
    insert(&store, 900..1000);
    assert_eq!(told(&store), (1000, 1000, 0));
    let full = store.insert(b"one more").unwrap_err();
    assert!(matches!(full, Error::Full { capacity: 1000 }), "{full}");
    store.close().unwrap();
    assert!(matches!(store.fullness(), Err(Error::Closed)));

    let options = options()
        .kind(Kind::Scalable)
        .capacity(1000)
        .fpr(1e-3)
        .transactional(true);
    let path = folder.path().join("grows");
    let store = options.create(&path).unwrap();
    let limit = Growth::new(1000, 1e-3, 2, 0.85).unwrap().limit();
    insert(&store, 0..10);
    store.commit().unwrap();
    insert(&store, 10..15);
    assert_eq!(told(&store), (15, limit, limit - 15));
    store.close().unwrap();
    // What was not committed is gone.
    assert_eq!(told(&options.open(&path).unwrap()), (10, limit, limit - 10));
}

/// Up to the limit the rate is what the store was made for, however it was told.
#[test]
fn the_target_is_not_passed_before_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let capacities = [1, 17, 1000, 123_456, 5_000_000];
    for (number, capacity) in capacities.into_iter().enumerate() {
        for (name, options) in [
            ("rate", options().capacity(capacity).fpr(1e-3)),
            ("bits", options().capacity(capacity).bits_per_key(11.3)),
            ("many", options().capacity(capacity).bits_per_key(40.0)),
        ] {
            let store = options
                .create(folder.path().join(format!("{name}-{number}")))
                .unwrap();
            let stats = store.stats().unwrap();
            let layer = stats.layers[0];
            let full = expected_rate(stats.key_limit, layer.pages, layer.k);
            assert!(
                full <= stats.fpr_target,
                "{name} {capacity}: {full} {}",
                stats.fpr_target
            );
        }
    }
}
