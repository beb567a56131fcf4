//! Keys that nobody has twice: each "seen" is wrong, so the truth is counted.

use std::collections::HashSet;

use everseen::testing::Options;
use everseen::{Kind, Store};

use crate::support::files::place;
use crate::support::numbers::{Random, key};

const SEED: u64 = 3;

fn seed() -> u64 {
    let told = std::env::var("EVERSEEN_SEED").ok();
    let seed = told.and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("EVERSEEN_SEED={seed}");
    seed
}

/// Keys shown, and those that were wrongly answered "seen" when they were shown first.
fn show(store: &Store, seed: u64, count: u64) -> (HashSet<u64>, HashSet<u64>) {
    let mut random = Random::new(seed);
    let (mut shown, mut lost) = (HashSet::new(), HashSet::new());
    while (shown.len() as u64) < count {
        // Some of them again, as lists have them.
        let batch: Vec<u64> = (0..5000)
            .map(|_| key(seed << 40 | random.below(count * 5 / 4)))
            .collect();
        let answers = store.insert_batch(&batch).unwrap();
        for (key, new) in batch.iter().zip(answers) {
            if shown.insert(*key) && !new {
                lost.insert(*key);
            }
        }
    }
    (shown, lost)
}

fn agrees(options: Options, count: u64, least: u64) {
    let seed = seed();
    let (_folder, path) = place();
    let options = options.measured(true).seed([7; 32]);
    let store = options.create(&path).unwrap();
    let (shown, lost) = show(&store, seed, count);
    store.close().unwrap();
    let store = Options::new().open_read_only(&path).unwrap();
    let measured = store.stats().unwrap().measured.unwrap();
    let truth = lost.len() as f64;
    println!("{truth} of {} lost, {measured:?}", shown.len());
    assert!((measured.lost.low..=measured.lost.high).contains(&truth));
    let rate = truth / shown.len() as f64;
    assert!(
        (measured.rate.low..=measured.rate.high).contains(&rate),
        "{rate}"
    );
    assert!(measured.false_positives >= least, "{measured:?}");
    // As many are sampled as there should be: five sigma.
    let mean = (shown.len() - lost.len()) as f64 / measured.one_in as f64;
    let off = (measured.sampled as f64 - mean).abs();
    assert!(off < 5.0 * mean.sqrt(), "{} of {mean}", measured.sampled);
    assert!(store.verify().unwrap().is_ok());
}

#[test]
fn the_measured_rate_is_the_true_one_at_a_hundredth() {
    let options = Options::new().capacity(1_500_000).fpr(0.01);
    agrees(options, 1_490_000, 0);
}

#[test]
fn the_measured_rate_is_the_true_one_of_a_bad_store() {
    let options = Options::new().capacity(600_000).fpr(0.4).buffer(4 << 20);
    agrees(options, 600_000, 5);
    let options = Options::new().kind(Kind::Scalable).capacity(20_000);
    agrees(options.fpr(0.5).buffer(2 << 20), 400_000, 2);
}

/// Without one observed there is a bound and no more.
#[test]
fn a_store_that_is_hardly_ever_wrong_has_a_bound() {
    let (_folder, path) = place();
    let options = Options::new().capacity(200_000).fpr(1e-6).measured(true);
    let store = options.create(&path).unwrap();
    let fresh = store.stats().unwrap().measured.unwrap();
    assert_eq!(
        (fresh.one_in, fresh.sampled, fresh.false_positives),
        (4096, 0, 0)
    );
    assert_eq!((fresh.rate.low, fresh.rate.high), (0.0, 1.0));
    let keys: Vec<u64> = (0..200_000).map(key).collect();
    store.insert_batch(&keys[..190_000]).unwrap();
    store.checkpoint().unwrap();
    let measured = store.stats().unwrap().measured.unwrap();
    assert_eq!(measured.false_positives, 0);
    assert_eq!((measured.lost.estimate, measured.lost.low), (0.0, 0.0));
    // Nearly four times what one sampled key stands for.
    assert!((measured.lost.high - 3.6889 * 4096.0).abs() < 1.0);
    assert!(
        measured.rate.high > 0.02 && measured.rate.high < 0.2,
        "{measured:?}"
    );
    store.close().unwrap();
    let (_folder, path) = place();
    let store = Options::new().capacity(1000).measured(false);
    let store = store.create(&path).unwrap();
    assert_eq!(store.stats().unwrap().measured, None);
}
