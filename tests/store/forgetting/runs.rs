//! Runs of stores that forget: what they leave alone, what they hide, and what is dropped unread.

use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, OnDamage, Store};

use super::{BEGIN, STEP, STEPS, at, forgetting};
use crate::support::counted::Counted;
use crate::support::files::place;
use crate::support::numbers::key;
use crate::support::segments::{Named, Segment, from, newest};

/// The least runs have few entries, and no more than that is merged at once.
fn with_runs(clock: u64) -> Options {
    let options = forgetting(clock).least_run(64).least_at_once(1);
    options.background(false)
}

fn named(path: &Path) -> Named {
    newest(&from(&std::fs::read(path).unwrap())).unwrap()
}

/// Inserts keys, all of them new, and checkpoints them.
fn bring(store: &Store, numbers: std::ops::Range<u64>) {
    let keys: Vec<u64> = numbers.map(key).collect();
    assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
    store.checkpoint().unwrap();
}

/// Inserts so many new keys in a session of its own, whose end drops nothing but what costs nothing. Returns them.
fn bring_alone(path: &Path, clock: u64, count: usize) -> Vec<u64> {
    let store = with_runs(clock)
        .on_damage(OnDamage::Error)
        .open(path)
        .unwrap();
    // Those that a damaged page would have tell nothing.
    let is_absent = |key: &u64| store.contains(*key).is_ok_and(|found| !found);
    let keys: Vec<u64> = (1 << 30..).map(key).filter(is_absent).take(count).collect();
    assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
    store.close().unwrap();
    keys
}

fn seen(store: &Store, numbers: std::ops::Range<u64>) -> usize {
    let keys: Vec<u64> = numbers.map(key).collect();
    let found = store.contains_batch(&keys).unwrap();
    for (key, found) in keys.iter().zip(&found).step_by(7) {
        assert_eq!(store.contains(*key).unwrap(), *found);
    }
    found.iter().filter(|found| **found).count()
}

/// However many steps begin meanwhile.
#[test]
fn few_keys_leave_a_large_run_as_it_is() {
    const MANY: u64 = 60_000;
    let (_folder, path) = place();
    let store = with_runs(BEGIN).create(&path).unwrap();
    bring(&store, 0..MANY);
    let mut before = named(&path);
    assert!(before.segments.len() > 10);
    for night in 0..STEPS {
        store.advance_to(at(BEGIN + night * STEP)).unwrap();
        bring(&store, MANY + 10 * night..MANY + 10 * night + 10);
        let now = named(&path);
        let is_kept = |one: &&Segment| before.segments.contains(one);
        let kept = now.segments.iter().filter(is_kept).count();
        // The last of the file may have moved to free room before it.
        assert!(kept + 2 > before.segments.len(), "night {night}: {kept}");
        assert!(now.runs >= 1);
        before = now;
    }
    assert_eq!(seen(&store, 0..MANY + 10 * STEPS), MANY as usize + 150);
    // Each night's keys are forgotten a step after those of the one before.
    for night in 0..STEPS {
        let clock = BEGIN + (STEPS + 1 + night) * STEP;
        store.advance_to(at(clock)).unwrap();
        assert_eq!(seen(&store, 0..MANY), 0);
        let rest = 10 * (STEPS - 1 - night) as usize;
        assert_eq!(seen(&store, MANY..MANY + 10 * STEPS), rest);
    }
    assert!(store.verify().unwrap().is_ok());
}

/// Damage in a run whose keys are all forgotten does not matter.
#[test]
fn a_run_that_is_forgotten_is_dropped_unread() {
    const MANY: u64 = 20_000;
    let (_folder, path) = place();
    let store = with_runs(BEGIN).create(&path).unwrap();
    bring(&store, 0..MANY);
    store.advance_to(at(BEGIN + 3 * STEP)).unwrap();
    bring(&store, MANY..MANY + 10);
    store.close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // The upper ones.
    let segments = named(&path).segments;
    for segment in &segments[segments.len() / 2..] {
        let pages = segment.first_page as usize * 4096;
        bytes[pages + 100..pages + 4000].fill(0xA5);
    }
    std::fs::write(&path, bytes).unwrap();
    let open = |clock| with_runs(clock).on_damage(OnDamage::Error).open(&path);
    // A step earlier they count, and a look-up tells.
    let store = open(BEGIN + STEPS * STEP).unwrap();
    let mut damaged = (0..MANY).map(|number| store.contains(key(number)).is_err());
    assert!(damaged.any(|damaged| damaged));
    store.close().unwrap();
    let clock = BEGIN + (STEPS + 1) * STEP;
    let new = bring_alone(&path, clock, 10);
    let store = open(clock).unwrap();
    assert_eq!(store.stats().unwrap().keys, 20);
    assert_eq!(seen(&store, 0..MANY + 20), 10);
    assert_eq!(store.contains_batch(&new).unwrap(), [true; 10]);
    assert!(store.verify().unwrap().is_ok());
    // And all of them at once.
    store.close().unwrap();
    let clock = BEGIN + 3 * STEPS * STEP;
    let last = bring_alone(&path, clock, 10);
    let store = open(clock).unwrap();
    assert_eq!(store.stats().unwrap().keys, 10);
    assert_eq!(seen(&store, 0..MANY + 20), 0);
    assert_eq!(store.contains_batch(&last).unwrap(), [true; 10]);
    assert!(store.verify().unwrap().is_ok());
}

/// The keys that came don't wait for a page that can't be read.
#[test]
fn a_damaged_page_keeps_no_key_from_the_pages() {
    const MANY: u64 = 20_000;
    let (_folder, path) = place();
    let store = with_runs(BEGIN).create(&path).unwrap();
    bring(&store, 0..MANY);
    store.advance_to(at(BEGIN + 3 * STEP)).unwrap();
    bring(&store, MANY..2 * MANY);
    store.close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let last = named(&path).segments.pop().unwrap();
    bytes[last.first_page as usize * 4096 + 100..][..3000].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    let clock = BEGIN + (STEPS + 1) * STEP;
    let new = bring_alone(&path, clock, 10);
    let store = with_runs(clock).open(&path).unwrap();
    store.checkpoint().unwrap();
    store.close().unwrap();
    let store = with_runs(clock).open_read_only(&path).unwrap();
    assert_eq!(store.stats().unwrap().log_bytes, 0);
    assert_eq!(store.contains_batch(&new).unwrap(), [true; 10]);
    assert!(!store.verify().unwrap().is_ok());
}

/// What went is away whatever the runs below have, and comes again with its new age.
#[test]
fn what_went_hides_what_is_below() {
    const MANY: u64 = 30_000;
    let (_folder, path) = place();
    let store = with_runs(BEGIN).create(&path).unwrap();
    bring(&store, 0..MANY);
    store.advance_to(at(BEGIN + 4 * STEP)).unwrap();
    let gone: Vec<u64> = (0..40).map(key).collect();
    assert!(!store.remove_batch(&gone).unwrap().contains(&false));
    store.checkpoint().unwrap();
    assert!(named(&path).runs > 0);
    assert_eq!(seen(&store, 0..MANY), MANY as usize - 40);
    store.advance_to(at(BEGIN + 8 * STEP)).unwrap();
    bring(&store, 0..20);
    assert_eq!(seen(&store, 0..MANY), MANY as usize - 20);
    store.advance_to(at(BEGIN + STEPS * STEP)).unwrap();
    bring(&store, MANY..MANY + 5);
    assert_eq!(seen(&store, 0..MANY), MANY as usize - 20);
    // What hid them is as old as they are, or older.
    store.advance_to(at(BEGIN + (STEPS + 4) * STEP)).unwrap();
    assert_eq!(seen(&store, 0..MANY), 20);
    store.checkpoint_full().unwrap();
    assert_eq!(named(&path).runs, 0);
    assert_eq!(seen(&store, 0..MANY), 20);
    assert_eq!(store.stats().unwrap().keys, 25);
    store.advance_to(at(BEGIN + (STEPS + 9) * STEP)).unwrap();
    assert_eq!(seen(&store, 0..MANY), 0);
}

/// A store that is full by what several runs have of one key counts again.
#[test]
fn keys_that_went_leave_room_for_others() {
    let (_folder, path) = place();
    let store = with_runs(BEGIN).capacity(20_000).create(&path).unwrap();
    bring(&store, 0..20_000);
    for round in 0..3 {
        let gone: Vec<u64> = (100 * round..100 * round + 100).map(key).collect();
        assert!(!store.remove_batch(&gone).unwrap().contains(&false));
        store.checkpoint().unwrap();
        bring(&store, 20_000 + 100 * round..20_100 + 100 * round);
    }
    let refused = store.insert(key(1 << 40));
    assert!(matches!(refused, Err(Error::Full { capacity: 20_000 })));
}

/// A store that has refused a key counts again once others went, and reads no page for that in which nothing is forgotten.
#[test]
fn keys_that_go_after_a_refusal_make_room() {
    const MANY: u64 = 300_000;
    for transactional in [false, true] {
        let (_folder, path) = place();
        let counted = Counted::new();
        let options = with_runs(BEGIN).capacity(MANY).transactional(transactional);
        let options = options.storage(counted.clone());
        let store = options.create(&path).unwrap();
        let keys: Vec<u64> = (0..MANY).map(key).collect();
        let commit = || {
            if transactional {
                store.commit().unwrap();
            }
        };
        for some in keys.chunks(1000) {
            store.insert_batch(some).unwrap();
            commit();
        }
        let is_full = || {
            let refused = store.insert(key(1 << 40));
            matches!(refused, Err(Error::Full { capacity: MANY }))
        };
        assert!(is_full());
        for round in 0..3 {
            assert!(store.remove(key(round)).unwrap());
            // Its room is free once it is gone for all.
            assert!(!transactional || is_full());
            commit();
            counted.counts.take();
            assert!(store.insert(key(MANY + round)).unwrap(), "round {round}");
            let (read, _) = counted.counts.take();
            let pages: u64 = named(&path).segments.iter().map(|one| one.pages).sum();
            assert!(read < 5 * 4096 * pages / 4, "{read} of {pages} pages");
            commit();
            assert!(is_full());
        }
        assert_eq!(seen(&store, 0..MANY + 3), MANY as usize);
    }
}
