//! Runs that drain into the ones below, slice by slice, compared with a set.

use std::collections::BTreeSet;
use std::path::Path;

use everseen::testing::Options;
use everseen::{Kind, Store};

use super::levels::{change, check};
use crate::support::fault::FaultStorage;
use crate::support::files::{killed_at_write, place, small};
use crate::support::numbers::Random;
use crate::support::runs::{Runs, compare, hashed, hashes};
use crate::support::segments::{Guard, Named, from, newest};
use crate::support::share::all_or;

/// Segments of two pages, and runs of 8 entries: few keys make many slices.
fn options() -> Options {
    let options = small().kind(Kind::Fingerprint).capacity(100_000);
    let options = options.fpr(1e-12).segment_pages(2).step_segments(1);
    options.buffer(4 << 20).least_run(8).background(false)
}

fn named(path: &Path) -> Named {
    newest(&from(&std::fs::read(path).unwrap())).unwrap()
}

/// How many keys there are to choose from, and how many of these are in the two oldest runs: nearly as many times fewer as
/// make a run drain.
const ALL: u64 = 70_000;
const OLDEST: usize = 50_000;
const BOTH: usize = OLDEST + 6_240;

/// A store of two runs.
fn filled(path: &Path, options: &Options, all: &[u64]) -> (Store, BTreeSet<u64>) {
    let store = options.create(path).unwrap();
    let mut net = BTreeSet::new();
    for some in [&all[..OLDEST], &all[OLDEST..BOTH]] {
        net.extend(some);
        for some in some.chunks(500) {
            let keys: Vec<_> = some.iter().copied().map(hashed).collect();
            store.insert_batch(&keys).unwrap();
            store.commit().unwrap();
        }
        store.checkpoint().unwrap();
    }
    assert_eq!(named(path).runs, 1);
    (store, net)
}

/// Makes a closed store whose first young run has drained in part.
fn drained_in_part(path: &Path, all: &[u64]) -> BTreeSet<u64> {
    let (store, mut net) = filled(path, &options(), all);
    let mut random = Random::new(5);
    while named(path).cursors[0] == 0 {
        change(&store, &mut net, all, 300, &mut random);
        store.checkpoint().unwrap();
    }
    store.close().unwrap();
    net
}

/// Returns the numbers of the runs whose cursors a checkpoint has moved, or that have gone.
fn moved(before: &Named, after: &Named) -> Vec<usize> {
    let is_moved = |run: &usize| {
        after
            .cursors
            .get(*run)
            .is_none_or(|now| *now > before.cursors[*run])
    };
    (0..before.runs).filter(is_moved).collect()
}

fn some_of(all: &[u64], random: &mut Random) -> Vec<u64> {
    let some = all.iter().copied().skip(random.below(30) as usize);
    some.step_by(30).collect()
}

/// Holds the answers for some of all hashes against a set, and all that `verify` finds.
fn check_some(store: &Store, net: &BTreeSet<u64>, all: &[u64], random: &mut Random) {
    check(store, net, &some_of(all, random));
}

#[test]
fn a_store_of_which_runs_drain_answers_as_a_set() {
    let (mut into_oldest, mut into_young) = (0, 0);
    for seed in 0..3 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (_folder, path) = place();
        let options = options().transactional(seed % 2 == 0);
        let all = hashes(ALL);
        let (mut store, mut net) = filled(&path, &options, &all);
        for round in 0..60 {
            let before = named(&path);
            let some = [10, 400, 900][random.below(3) as usize];
            change(&store, &mut net, &all, some, &mut random);
            store.commit().unwrap();
            if random.below(4) == 0 {
                store.close().unwrap();
                store = options.open(&path).unwrap();
            } else {
                store.checkpoint().unwrap();
            }
            check_some(&store, &net, &all, &mut random);
            let moved = moved(&before, &named(&path));
            println!("round {round}: {moved:?} of {} runs", before.runs);
            into_oldest += usize::from(moved.contains(&0));
            into_young += usize::from(moved.iter().any(|run| *run > 0));
        }
        store.checkpoint_full().unwrap();
        check(&store, &net, &all);
    }
    assert!(into_oldest > 20, "{into_oldest} slices are few");
    assert!(into_young > 3, "{into_young} slices are few");
}

/// Another handle looks all the while, and finds each key whatever has drained since its last look.
#[test]
fn a_reader_beside_runs_that_drain_answers_as_a_set() {
    let mut random = Random::new(9);
    let (_folder, path) = place();
    let all = hashes(ALL);
    let (store, mut net) = filled(&path, &options(), &all);
    let reader = options().open_read_only(&path).unwrap();
    for _ in 0..60 {
        change(&store, &mut net, &all, 300, &mut random);
        store.checkpoint().unwrap();
        check_some(&reader, &net, &all, &mut random);
    }
}

/// Runs that something else has written, some of them drained in part, go on to drain. What stands below a cursor is a lie.
#[test]
fn runs_that_have_drained_in_part_go_on() {
    for seed in 0..all_or(12, 5) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (_folder, path) = place();
        let all = hashes(6000);
        let young = 2 + random.below(3) as usize;
        let mut runs = Runs::random(&mut random, &all, young, 8);
        for run in &mut runs.young {
            run.is_rolled_back = random.below(2) == 0;
        }
        runs.create(&options(), &path);
        let mut net = runs.net.clone();
        let store = options().open(&path).unwrap();
        for _ in 0..25 {
            change(&store, &mut net, &all, 30, &mut random);
            store.checkpoint().unwrap();
            check(&store, &net, &all);
        }
        store.close().unwrap();
    }
}

/// A death at any write of a checkpoint that moves cursors leaves the same keys, and the next one counts none twice.
#[test]
fn a_death_at_any_write_of_a_slice_loses_nothing() {
    let all = hashes(ALL);
    let (_folder, prepared) = place();
    let net = drained_in_part(&prepared, &all);
    let bytes = std::fs::read(&prepared).unwrap();
    let mut has_moved = false;
    for nth in 1.. {
        let (_folder, path) = place();
        std::fs::write(&path, &bytes).unwrap();
        let storage = FaultStorage::without_syncs();
        let options = options().storage(Guard::new(storage.shared()));
        let store = options.open(&path).unwrap();
        let (mut net, mut random) = (net.clone(), Random::new(nth));
        // A segment's share of the keys that come meanwhile.
        (0..3).for_each(|_| change(&store, &mut net, &all, 1000, &mut random));
        let before = named(&path);
        let (_copy, killed, is_over) = killed_at_write(&storage, nth, &path, || store.checkpoint());
        drop(store);
        let reader = options.open_read_only(&killed).unwrap();
        compare(&reader, &net, &some_of(&all, &mut random));
        assert!(reader.verify().unwrap().is_ok());
        drop(reader);
        let store = options.open(&killed).unwrap();
        compare(&store, &net, &some_of(&all, &mut random));
        change(&store, &mut net, &all, 60, &mut random);
        store.checkpoint().unwrap();
        check_some(&store, &net, &all, &mut random);
        has_moved |= moved(&before, &named(&killed)).contains(&0);
        if is_over {
            break;
        }
    }
    assert!(has_moved, "nothing has drained");
}

/// Damage in a slice is no reason to keep new keys out. They are safe, the damage is told where it is looked at, and the run
/// stays as it is.
#[test]
fn damage_in_a_slice_keeps_no_checkpoint_from_ending() {
    let all = hashes(ALL);
    let (_folder, path) = place();
    let net = drained_in_part(&path, &all);
    let before = named(&path);
    let mut segments = before.segments.iter();
    // No further slice can be merged without this segment.
    let next = segments.find(|one| one.first == before.cursors[0]).unwrap();
    assert!(segments.len() > 1, "new keys lie there as well");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[next.first_page as usize * 4096 + 2000] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let mut new = all
        .iter()
        .filter(|hash| **hash > u64::MAX / 16 * 15 && !net.contains(hash));
    for _ in 0..6 {
        let store = options().open(&path).unwrap();
        let new: Vec<_> = new.by_ref().take(100).copied().map(hashed).collect();
        assert_eq!(new.len(), 100);
        assert!(store.insert_batch(&new).unwrap().iter().all(|new| *new));
        store.close().unwrap();
        let reader = options().open_read_only(&path).unwrap();
        assert!(
            reader
                .contains_batch(&new)
                .unwrap()
                .iter()
                .all(|there| *there)
        );
        let after = named(&path);
        assert_eq!(
            (&after.segments, after.cursors[0]),
            (&before.segments, before.cursors[0])
        );
        assert!(!reader.verify().unwrap().is_ok());
    }
}
