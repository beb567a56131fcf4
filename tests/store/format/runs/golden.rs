//! The golden store of three runs, the youngest of which drains: half of it is in the run below.

use std::path::Path;

use everseen::hash::KeyHasher;
use everseen::testing::{GivenRun, Options};
use everseen::{Hash, Kind};

use crate::format::doc::Layout;
use crate::format::golden::{golden, key, options};
use crate::format::seed;
use crate::format::store_file::newest_superblock;

pub(crate) const NAME: &str = "runs.ever";

fn run_options() -> Options {
    let options = options().kind(Kind::Fingerprint);
    options.capacity(1 << 20).fpr(1e-6).segment_pages(2)
}

fn hash(number: u64) -> u64 {
    KeyHasher::new(Hash::Highway, &seed()).hash(&key(number))
}

/// 1500 keys; then 200 that came and 50 that went; then 100 that came and 100 that went, of which the lower half of the
/// hashes is in the run below.
pub(crate) fn make(path: &Path) {
    let store = run_options().create(path).unwrap();
    let keys: Vec<_> = (0..1500).map(key).collect();
    store.insert_batch(&keys).unwrap();
    store.close().unwrap();
    let begin = 1 << 63;
    let of = |numbers: std::ops::Range<u64>| numbers.map(hash);
    let is_below = |hash: &u64| *hash < begin;
    let youngest = GivenRun {
        came: of(1700..1800).collect(),
        went: of(50..150).collect(),
        begin,
        ..GivenRun::default()
    };
    let middle = GivenRun {
        came: of(1500..1700)
            .chain(of(1700..1800).filter(is_below))
            .collect(),
        went: of(0..50).chain(of(50..150).filter(is_below)).collect(),
        begin: 0,
        ..GivenRun::default()
    };
    run_options().add_runs(path, &[middle, youngest]).unwrap();
}

#[test]
fn the_golden_store_of_runs_is_what_was_put_in() {
    let (_work, path) = golden(NAME);
    let flags = {
        let file = std::fs::read(&path).unwrap();
        let (_, superblock) = newest_superblock(&file);
        Layout::of("Superblocks").number(superblock, "flags")
    };
    assert_eq!(flags & 8, 8);
    let is_there = |number: u64| (150..1800).contains(&number);
    for writes in [false, true] {
        let store = match writes {
            false => run_options().open_read_only(&path).unwrap(),
            true => run_options().open(&path).unwrap(),
        };
        assert_eq!(store.stats().unwrap().keys, 1650);
        for number in 0..10_000 {
            let found = store.contains(key(number)).unwrap();
            assert_eq!(found, is_there(number), "{number}");
        }
        let report = store.verify().unwrap();
        assert!(report.is_ok() && report.fingerprints == 1650, "{report:?}");
    }
    let store = run_options().open(&path).unwrap();
    assert!(store.insert(key(0)).unwrap() && store.remove(key(1700)).unwrap());
    store.close().unwrap();
    let store = run_options().open_read_only(&path).unwrap();
    for number in 0..10_000 {
        let expected = number == 0 || is_there(number) && number != 1700;
        assert_eq!(store.contains(key(number)).unwrap(), expected, "{number}");
    }
}
