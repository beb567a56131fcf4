//! `tests/reader.py` on stores that forget: at every time it answers as the library does.

use std::path::Path;

use everseen::Store;
use everseen::testing::Options;
use tempfile::TempDir;

use super::golden_ages::time;
use crate::format::reader::{answers_at, random, run};
use crate::format::seed;
use crate::format::snapshot::copy;
use crate::support::numbers::Random;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const BEGIN: u64 = 1_700_000_000_000;

/// So few fingerprints that many absent keys are answered "seen", and alike by both.
fn forgetting(clock: u64, steps: u32) -> Options {
    let options = Options::new().buffer(1 << 20).seed(seed());
    let options = options.capacity(20_000).fpr(0.1).background(false);
    // Few keys are a run of their own.
    let options = options.least_run(64).least_at_once(1);
    let options = options.forget_after(std::time::Duration::from_millis(30 * DAY));
    options.forget_steps(steps).clock(time(clock))
}

/// Compares reader and library at a time, and returns how many of the keys are there.
fn agree(path: &Path, hashes: &[u64], clock: u64, steps: u32) -> usize {
    let store = forgetting(clock, steps).open_read_only(path).unwrap();
    let library = store.contains_batch(hashes).unwrap();
    let reader = answers_at(path, hashes, false, Some(clock));
    assert!(reader == library, "at {clock}, {steps} steps");
    library.into_iter().filter(|found| *found).count()
}

/// Some keys come, some go, and perhaps a checkpoint follows.
fn change(store: &Store, hashes: &[u64], random: &mut Random) {
    let first = random.below(hashes.len() as u64 - 1000) as usize;
    store.insert_batch(&hashes[first..first + 700]).unwrap();
    for hash in &hashes[first + 600..first + 800] {
        store.remove(*hash).unwrap();
    }
    if random.below(4) > 0 {
        store.commit().unwrap();
    }
    match random.below(6) {
        0 => store.checkpoint().unwrap(),
        1 => drop(store.exempt(&hashes[first + 800..first + 900]).unwrap()),
        _ => {}
    }
}

#[test]
fn the_reader_agrees_on_stores_that_forget() {
    for (transactional, steps) in [(false, 15), (true, 4), (false, 255), (true, 1)] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let options = forgetting(BEGIN, steps).transactional(transactional);
        let store = options.create(&path).unwrap();
        let seed = 0xF0 + u64::from(steps);
        println!("seed {seed:#x}");
        let (hashes, mut random) = (random(seed, 6000), Random::new(seed));
        let (mut clock, mut sizes) = (BEGIN, Vec::new());
        for round in 1..=12 {
            clock += random.below(6 * DAY);
            store.advance_to(time(clock)).unwrap();
            change(&store, &hashes, &mut random);
            if round % 4 != 0 {
                continue;
            }
            // As a kill would leave it, when the last change is old and when it is not.
            let copies = TempDir::new().unwrap();
            let copied = copy(&path, copies.path());
            for later in [0, random.below(30 * DAY), 90 * DAY] {
                sizes.push(agree(&copied, &hashes, clock + later, steps));
            }
        }
        let few = |at: usize| sizes[at] < sizes[at - 2];
        assert!(few(2) && few(5) && few(8), "{sizes:?}");
        store.close().unwrap();
        agree(&path, &hashes, clock, steps);
    }
}

/// Without a time of its own, a reader takes the latest that counts: not that of a log in which nothing came.
#[test]
fn the_time_of_a_store_is_the_latest_that_counts() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = forgetting(BEGIN, 15).transactional(true);
    let store = options.create(&path).unwrap();
    let clock_of = |path: &Path| {
        let said = String::from_utf8(run(path, &[]).stdout).unwrap();
        let (_, rest) = said.split_once("\"clock\": ").unwrap();
        rest.split_once(',').unwrap().0.parse().unwrap()
    };
    let killed = || {
        let copies = TempDir::new().unwrap();
        let clock: u64 = clock_of(&copy(&path, copies.path()));
        clock
    };
    assert_eq!(killed(), 0);
    store.insert(1_u64).unwrap();
    assert_eq!(killed(), 0);
    store.commit().unwrap();
    assert_eq!(killed(), BEGIN);
    store.advance_to(time(BEGIN + 3 * DAY)).unwrap();
    // Begins a log of that time, in which nothing counts yet.
    store.insert(2_u64).unwrap();
    assert_eq!(killed(), BEGIN);
    store.commit().unwrap();
    assert_eq!(killed(), BEGIN + 3 * DAY);
    store.advance_to(time(BEGIN + 40 * DAY)).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(killed(), BEGIN + 40 * DAY);
    store.close().unwrap();
    assert_eq!(clock_of(&path), BEGIN + 40 * DAY);
}
