//! Clocks that are wrong, and what is done against them.

use std::path::Path;

use everseen::{Error, OnDamage, OpenOptions};

use super::{BEGIN, STEP, STEPS, at, forgetting};
use crate::support::files::{image, place, small};
use crate::support::numbers::key;

/// Decades ahead.
const WRONG: u64 = BEGIN + 75 * 365 * 86_400_000;

/// Neither after a kill nor in order.
#[test]
fn a_wrong_clock_does_no_harm_before_something_is_accepted() {
    let (_folder, path) = place();
    let keys: Vec<u64> = (0..1000).map(key).collect();
    let open = |clock, path: &Path| forgetting(clock).transactional(true).open(path).unwrap();
    let options = forgetting(BEGIN).transactional(true);
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys).unwrap();
    store.commit().unwrap();
    store.close().unwrap();
    let store = open(WRONG, &path);
    assert!(store.insert("dropped").unwrap());
    let (_copy, killed) = image(&path);
    store.close().unwrap();
    for path in [path, killed] {
        let store = open(BEGIN + STEP, &path);
        assert!(!store.contains_batch(&keys).unwrap().contains(&false));
        assert!(store.insert("key").unwrap());
        store.commit().unwrap();
        let now = store.stats().unwrap().forgetting.unwrap().now;
        assert_eq!(now, at(BEGIN + STEP));
        store.close().unwrap();
        let store = open(BEGIN + (STEPS + 1) * STEP, &path);
        assert!(store.contains("key").unwrap());
        store.advance_to(at(BEGIN + (STEPS + 2) * STEP)).unwrap();
        assert!(!store.contains("key").unwrap());
        assert!(store.verify().unwrap().is_ok());
    }
}

#[test]
fn a_look_up_keeps_its_time_to_itself() {
    let (_folder, path) = place();
    let store = forgetting(BEGIN).create(&path).unwrap();
    assert!(store.insert("key").unwrap());
    let ahead = forgetting(WRONG).open(&path).unwrap();
    assert!(!ahead.contains("key").unwrap());
    assert!(store.contains("key").unwrap());
    assert!(ahead.insert("other").unwrap());
    assert!(!store.contains("key").unwrap());
}

/// A crawl goes by the time at which it began, even if another process copies or corrects its store meanwhile.
#[test]
fn a_copy_or_an_exemption_moves_no_one_to_another_time() {
    for transactional in [false, true] {
        let (_folder, path) = place();
        let options = |clock| forgetting(clock).transactional(transactional);
        let crawl = options(BEGIN).create(&path).unwrap();
        let other = options(WRONG).open(&path).unwrap();
        let copy = || {
            let copies = tempfile::tempdir().unwrap();
            other.snapshot(copies.path().join("copy")).map(drop)
        };
        let exempt = || other.exempt(&["none"]).map(drop);
        let checkpoint = || crawl.checkpoint();
        let works: [&dyn Fn() -> everseen::Result<()>; 5] =
            [&copy, &exempt, &copy, &checkpoint, &copy];
        for (number, work) in (0..).zip(works) {
            work().unwrap();
            assert!(crawl.insert(key(number)).unwrap());
            crawl.commit().unwrap();
            let keys: Vec<u64> = (0..=number).map(key).collect();
            work().unwrap();
            assert!(
                !crawl.contains_batch(&keys).unwrap().contains(&false),
                "{number}"
            );
            let now = crawl.stats().unwrap().forgetting.unwrap().now;
            assert_eq!(now, at(BEGIN), "{number}");
        }
        // A key that comes by the other's time does.
        assert!(other.insert("now").unwrap());
        other.commit().unwrap();
        assert!(!crawl.contains(key(0)).unwrap());
        assert!(crawl.contains("now").unwrap());
    }
}

/// What came by the wrong clock is forgotten a window after the time that was set.
#[test]
fn a_repair_sets_the_time_back() {
    let (_folder, path) = place();
    let store = forgetting(BEGIN).create(&path).unwrap();
    store.insert("key").unwrap();
    store.close().unwrap();
    let late: Vec<u64> = (0..3000).map(key).collect();
    let store = forgetting(WRONG).open(&path).unwrap();
    assert!(store.insert_batch(&late).unwrap().iter().all(|new| *new));
    store.close().unwrap();
    let store = forgetting(BEGIN).open(&path).unwrap();
    let now = store.stats().unwrap().forgetting.unwrap().now;
    assert_eq!(now, at(WRONG));
    store.close().unwrap();
    let clock = |clock| OpenOptions::new().clock(at(clock));
    let report = everseen::repair(&path, OnDamage::NeverSeen, &clock(BEGIN + STEP)).unwrap();
    assert!(report.is_whole());
    let store = forgetting(BEGIN).open(&path).unwrap();
    let now = store.stats().unwrap().forgetting.unwrap().now;
    assert_eq!(now, at(BEGIN + STEP));
    assert!(!store.contains_batch(&late).unwrap().contains(&false));
    store.advance_to(at(BEGIN + (STEPS + 1) * STEP)).unwrap();
    assert!(!store.contains_batch(&late).unwrap().contains(&false));
    store.advance_to(at(BEGIN + (STEPS + 2) * STEP)).unwrap();
    assert!(!store.contains_batch(&late).unwrap().contains(&true));
    assert!(store.verify().unwrap().is_ok());
    let (_other, keeps) = place();
    small()
        .capacity(10)
        .create(&keeps)
        .unwrap()
        .close()
        .unwrap();
    let refused = everseen::repair(&keeps, OnDamage::NeverSeen, &clock(BEGIN));
    assert!(matches!(refused, Err(Error::NeverForgets { .. })));
}

/// With runs, to a time within the first window, and with nothing that came since.
#[test]
fn a_time_is_set_back_below_several_runs() {
    let early = |clock| {
        let options = forgetting(clock).least_run(16).least_at_once(1);
        options.background(false)
    };
    let (_folder, path) = place();
    let store = early(STEP).create(&path).unwrap();
    store
        .insert_batch(&(0..20_000).map(key).collect::<Vec<_>>())
        .unwrap();
    store.close().unwrap();
    for (round, clock) in [(0, WRONG), (1, WRONG + STEP), (2, WRONG + 2 * STEP)] {
        let store = early(clock).open(&path).unwrap();
        let first = 30_000 + 100 * round;
        let late: Vec<u64> = (first..first + 100).map(key).collect();
        assert!(!store.insert_batch(&late).unwrap().contains(&false));
        store.close().unwrap();
    }
    let clock = OpenOptions::new().clock(at(2 * STEP));
    everseen::repair(&path, OnDamage::NeverSeen, &clock).unwrap();
    for round in 0..4 {
        let store = early(3 * STEP + round * STEP).open(&path).unwrap();
        let now = store.stats().unwrap().forgetting.unwrap().now;
        assert_eq!(now, at(3 * STEP + round * STEP));
        assert!(store.insert(key(40_000 + round)).unwrap());
        store.close().unwrap();
        assert!(early(0).open(&path).unwrap().verify().unwrap().is_ok());
    }
    let store = early((STEPS + 2) * STEP).open(&path).unwrap();
    let late: Vec<u64> = (30_000..30_300).map(key).collect();
    assert!(!store.contains_batch(&late).unwrap().contains(&false));
    store.advance_to(at((STEPS + 3) * STEP)).unwrap();
    assert!(!store.contains_batch(&late).unwrap().contains(&true));
}

/// A repair accepts no key, and so forgets none.
#[test]
fn a_repair_goes_by_the_time_that_is_recorded() {
    let (_folder, path) = place();
    let keys: Vec<u64> = (0..3000).map(key).collect();
    let store = forgetting(BEGIN).create(&path).unwrap();
    store.insert_batch(&keys).unwrap();
    store.close().unwrap();
    everseen::repair(&path, OnDamage::NeverSeen, &OpenOptions::new()).unwrap();
    let store = forgetting(BEGIN).open(&path).unwrap();
    assert!(!store.contains_batch(&keys).unwrap().contains(&false));
}

/// In one log, of a buffer that others can write to. The key below has the age of before.
#[test]
fn a_key_that_went_and_came_again_is_young() {
    let (_folder, path) = place();
    let keys: Vec<u64> = (0..5000).map(key).collect();
    let store = forgetting(BEGIN).create(&path).unwrap();
    store.insert_batch(&keys).unwrap();
    store.checkpoint().unwrap();
    store.advance_to(at(BEGIN + 5 * STEP)).unwrap();
    assert!(!store.remove_batch(&keys).unwrap().contains(&false));
    assert!(!store.insert_batch(&keys).unwrap().contains(&false));
    store.checkpoint().unwrap();
    store.advance_to(at(BEGIN + (STEPS + 5) * STEP)).unwrap();
    assert!(!store.contains_batch(&keys).unwrap().contains(&false));
    store.advance_to(at(BEGIN + (STEPS + 6) * STEP)).unwrap();
    assert!(!store.contains_batch(&keys).unwrap().contains(&true));
}

/// So many that pages are listed whole.
#[test]
fn many_keys_are_looked_up_by_their_ages() {
    const EACH: u64 = 40_000;
    let (_folder, path) = place();
    let keys: Vec<u64> = (0..2 * EACH).map(key).collect();
    let store = forgetting(BEGIN).create(&path).unwrap();
    let (old, new) = keys.split_at(EACH as usize);
    store.insert_batch(old).unwrap();
    store.advance_to(at(BEGIN + 5 * STEP)).unwrap();
    store.insert_batch(new).unwrap();
    store.checkpoint().unwrap();
    for (passed, old_there, new_there) in [(0, true, true), (1, false, true), (6, false, false)] {
        let clock = BEGIN + (STEPS + passed) * STEP;
        store.advance_to(at(clock)).unwrap();
        let found = store.contains_batch(&keys).unwrap();
        let (old, new) = found.split_at(EACH as usize);
        assert!(old.iter().all(|there| *there == old_there), "{passed}");
        assert!(new.iter().all(|there| *there == new_there), "{passed}");
    }
}
