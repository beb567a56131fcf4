//! Checkpoints that write runs of their own, compared with a set: through merges of runs, deaths, transactions and
//! exemptions.

use std::collections::BTreeSet;
use std::path::Path;

use everseen::testing::Options;
use everseen::{Kind, Store};

use crate::support::fault::FaultStorage;
use crate::support::files::{killed_at_write, place, small};
use crate::support::numbers::Random;
use crate::support::runs::{compare, hashed, hashes};
use crate::support::segments::{Guard, from, newest};

/// So few entries make a run that few keys make several.
fn options() -> Options {
    let options = small().kind(Kind::Fingerprint).capacity(50_000);
    options
        .fpr(1e-12)
        .segment_pages(2)
        .step_segments(1)
        .least_run(8)
}

/// How many runs the newest superblock names above the oldest one.
fn runs(path: &Path) -> usize {
    let file = std::fs::read(path).unwrap();
    newest(&from(&file)).unwrap().runs
}

/// Inserts and removes up to `most` keys.
pub fn change(
    store: &Store,
    net: &mut BTreeSet<u64>,
    hashes: &[u64],
    most: u64,
    random: &mut Random,
) {
    for _ in 0..random.below(most) {
        let hash = hashes[random.below(hashes.len() as u64) as usize];
        match random.below(3) {
            0 => assert_eq!(store.remove(hashed(hash)).unwrap(), net.remove(&hash)),
            _ => assert_eq!(store.insert(hashed(hash)).unwrap(), net.insert(hash)),
        }
    }
}

pub fn check(store: &Store, net: &BTreeSet<u64>, all: &[u64]) {
    compare(store, net, all);
    let report = store.verify().unwrap();
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.fingerprints, net.len() as u64);
}

/// A store with some keys in its oldest run.
fn filled(path: &Path, options: &Options, all: &[u64]) -> (Store, BTreeSet<u64>) {
    let store = options.create(path).unwrap();
    let net: BTreeSet<u64> = all.iter().copied().step_by(2).collect();
    let keys: Vec<_> = net.iter().copied().map(hashed).collect();
    store.insert_batch(&keys).unwrap();
    store.checkpoint().unwrap();
    (store, net)
}

#[test]
fn small_checkpoints_write_runs_that_answer_as_a_set() {
    let mut most = 0;
    for seed in 0..12 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (_folder, path) = place();
        let options = options().transactional(seed % 2 == 0);
        let all = hashes(3000);
        let (mut store, mut net) = filled(&path, &options, &all);
        for round in 0..40 {
            let some = [2, 12, 100, 400][random.below(4) as usize];
            change(&store, &mut net, &all, some, &mut random);
            store.commit().unwrap();
            match random.below(4) {
                // What is below and above the buffer is found together.
                0 => compare(&store, &net, &all),
                1 => {
                    store.close().unwrap();
                    store = options.open(&path).unwrap();
                    check(&store, &net, &all);
                }
                _ => {
                    store.checkpoint().unwrap();
                    check(&store, &net, &all);
                }
            }
            most = most.max(runs(&path));
            println!("round {round}: {} runs", runs(&path) + 1);
        }
        store.close().unwrap();
        check(&options.open_read_only(&path).unwrap(), &net, &all);
    }
    assert!(most >= 3, "{most} runs are few");
}

/// The oldest run stays where it is, and what goes is gone all the same.
#[test]
fn a_key_that_went_in_a_younger_run_is_gone_and_may_come_again() {
    let (_folder, path) = place();
    let all = hashes(2000);
    let (store, mut net) = filled(&path, &options(), &all);
    let before = newest(&from(&std::fs::read(&path).unwrap()))
        .unwrap()
        .segments;
    let first = *net.first().unwrap();
    for _ in 0..3 {
        assert!(store.remove(hashed(first)).unwrap() && net.remove(&first));
        store.checkpoint().unwrap();
        check(&store, &net, &all);
        assert!(store.insert(hashed(first)).unwrap() && net.insert(first));
        store.checkpoint().unwrap();
        check(&store, &net, &all);
    }
    // It came and went within one log.
    assert!(store.remove(hashed(first)).unwrap());
    assert!(store.insert(hashed(first)).unwrap());
    store.checkpoint().unwrap();
    check(&store, &net, &all);
    let after = newest(&from(&std::fs::read(&path).unwrap()))
        .unwrap()
        .segments;
    assert_eq!(before, after);
}

/// Whether a key is new to the store, the log can't say where another hash of its fingerprint is exempt.
#[test]
fn exemptions_leave_the_number_of_keys_exact() {
    let mut most = 0;
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (_folder, path) = place();
        let all = hashes(2000);
        let (store, mut net) = filled(&path, &options(), &all);
        for _ in 0..15 {
            change(&store, &mut net, &all, 60, &mut random);
            let exempt: Vec<u64> = all
                .iter()
                .copied()
                .filter(|_| random.below(200) == 0)
                .collect();
            let keys: Vec<_> = exempt.iter().copied().map(hashed).collect();
            store.exempt(&keys).unwrap();
            for hash in exempt {
                if random.below(2) == 0 || !store.contains(hashed(hash)).unwrap() {
                    // It is new again.
                    let is_new = store.insert(hashed(hash)).unwrap();
                    assert_eq!(is_new, store.contains(hashed(hash)).unwrap() && is_new);
                    net.insert(hash);
                }
            }
            store.checkpoint().unwrap();
            let report = store.verify().unwrap();
            assert!(report.is_ok(), "{report:?}");
            assert_eq!(report.fingerprints, store.stats().unwrap().keys);
            most = most.max(runs(&path));
        }
    }
    assert!(most >= 2, "{most} runs are few");
}

/// A death at any write of a checkpoint that merges runs leaves the same keys, and the next one counts none twice.
#[test]
fn a_death_at_any_write_of_a_run_loses_nothing() {
    let all = hashes(3000);
    for nth in 1.. {
        let (_folder, path) = place();
        let storage = FaultStorage::without_syncs();
        let options = options().storage(Guard::new(storage.shared()));
        let (store, mut net) = filled(&path, &options, &all);
        let mut random = Random::new(nth);
        for most in [200, 30] {
            change(&store, &mut net, &all, most, &mut random);
            store.checkpoint().unwrap();
        }
        change(&store, &mut net, &all, 60, &mut random);
        let (_copy, killed, is_over) = killed_at_write(&storage, nth, &path, || store.checkpoint());
        drop(store);
        // The log may hold a part of the keys.
        let reader = options.open_read_only(&killed).unwrap();
        compare(&reader, &net, &all);
        assert!(reader.verify().unwrap().is_ok());
        drop(reader);
        let store = options.open(&killed).unwrap();
        compare(&store, &net, &all);
        change(&store, &mut net, &all, 60, &mut random);
        store.close().unwrap();
        check(&options.open_read_only(&killed).unwrap(), &net, &all);
        if is_over {
            break;
        }
    }
}

/// What checkpoints have freed is given back when the store closes, whatever runs its segments belong to.
#[test]
fn a_closed_store_of_several_runs_has_little_free_room() {
    let mut shorter = 0;
    for seed in 0..18 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (_folder, path) = place();
        let all = hashes(20_000);
        let (store, mut net) = filled(&path, &options(), &all);
        for most in [4000, 4000, 900, 900, 900, 100, 100, 20] {
            change(&store, &mut net, &all, most, &mut random);
            store.checkpoint().unwrap();
        }
        let open = std::fs::metadata(&path).unwrap().len();
        store.close().unwrap();
        let named = newest(&from(&std::fs::read(&path).unwrap())).unwrap();
        let pages: u64 = named
            .pages
            .iter()
            .map(|pages| pages.end - pages.start)
            .sum();
        let length = std::fs::metadata(&path).unwrap().len() / 4096 - 32;
        println!(
            "{pages} of {length} pages, {} runs; {open} bytes before",
            named.runs
        );
        // Free runs of fewer than eight pages stay.
        assert!(length <= pages + 16, "{pages} of {length} pages");
        let bytes = std::fs::metadata(&path).unwrap().len();
        shorter += u64::from(bytes < open);
        check(&options().open_read_only(&path).unwrap(), &net, &all);
        let store = options().open(&path).unwrap();
        check(&store, &net, &all);
    }
    assert!(shorter > 1, "{shorter} of 18 are shorter than before");
}

/// A full checkpoint leaves one run, with a log or without, and the next small one begins again.
#[test]
fn a_full_checkpoint_leaves_one_run() {
    let (_folder, path) = place();
    let mut random = Random::new(1);
    let all = hashes(3000);
    let (store, mut net) = filled(&path, &options(), &all);
    for comes in [true, false] {
        change(&store, &mut net, &all, 60, &mut random);
        store.checkpoint().unwrap();
        assert!(runs(&path) > 0);
        if comes {
            change(&store, &mut net, &all, 60, &mut random);
        }
        store.checkpoint_full().unwrap();
        assert_eq!(runs(&path), 0);
        check(&store, &net, &all);
    }
    let entry = || newest(&from(&std::fs::read(&path).unwrap())).unwrap().entry;
    let before = entry();
    // There is nothing left to do.
    store.checkpoint_full().unwrap();
    assert_eq!(entry(), before);
}
