//! Sizes from 1 to 10,000 keys at 10 bits a key: no small size may be a bad one.

use everseen::testing::Options;

use super::{SEED, count_found, insert};
use crate::support::numbers::key;
use crate::support::unsynced::Unsynced;

const MOST_KEYS: u64 = 10_000;
const QUERIES: u64 = 20_000;
/// Most absent keys found, of `QUERIES`: at any size, and at nine sizes in ten.
const MOST: u64 = QUERIES * 2 / 100;
const USUALLY: u64 = QUERIES * 125 / 10_000;

fn check(sizes: impl Iterator<Item = u64>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (mut tried, mut above) = (0, 0);
    let mut worst = (0, 0);
    let mut sum = 0;
    for size in sizes {
        tried += 1;
        let options = Options::new()
            .capacity(size)
            .bits_per_key(10.0)
            .seed(SEED)
            .buffer(everseen::testing::LEAST_BUFFER)
            .background(false)
            .storage(Unsynced::new());
        let store = options.create(&path).unwrap();
        let keys = size << 20..(size << 20) + size;
        insert(&store, keys.clone());
        store.close().unwrap();
        let store = options.open_read_only(&path).unwrap();
        let found = count_found(&store, size, |number| key(keys.start + number));
        assert_eq!(found, size, "a false negative among {size} keys");
        // Other absent keys at each size, so that none is lucky at all of them.
        let first = super::ABSENT + size * QUERIES;
        let hits = count_found(&store, QUERIES, |number| key(first + number));
        assert!(
            hits <= MOST,
            "{hits} of {QUERIES} absent keys at {size} keys"
        );
        above += u64::from(hits > USUALLY);
        worst = worst.max((hits, size));
        sum += hits;
        drop(store);
        std::fs::remove_file(&path).unwrap();
    }
    println!(
        "{tried} sizes from 1 to {MOST_KEYS}, {QUERIES} absent keys each: {} sizes above 1.25 %, worst {:.2} % at {} keys, mean {:.3} %",
        above,
        worst.0 as f64 * 100.0 / QUERIES as f64,
        worst.1,
        sum as f64 * 100.0 / (QUERIES * tried) as f64,
    );
    assert!(above <= tried / 10);
}

#[test]
fn every_size_up_to_a_thousand_keys_and_some_beyond_keep_their_rate() {
    let step = crate::support::share::all_some_or(1, 3, 8) as usize;
    let sizes = (1..1000).chain((1000..=MOST_KEYS).step_by(9));
    check(sizes.step_by(step));
}

#[test]
#[ignore = "minutes; cargo test --release --test store -- --ignored --nocapture long_every_size"]
fn long_every_size_up_to_ten_thousand_keys_keeps_its_rate() {
    check(1..=MOST_KEYS);
}
