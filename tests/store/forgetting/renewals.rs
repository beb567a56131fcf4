//! Stores that forget by when a key last came: what is renewed, and what is not.

use everseen::testing::Options;
use everseen::{Error, ForgetBy, Store, Verdict};
use tempfile::TempDir;

use super::{BEGIN, STEP, STEPS, at, forgetting};
use crate::support::files::{image, place};
use crate::support::numbers::key;

fn renewing(clock: u64) -> Options {
    let options = forgetting(clock).forget_by(ForgetBy::Last);
    options.background(false)
}

fn keys(numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.map(key).collect()
}

fn advance(store: &Store, steps: u64) {
    store.advance_to(at(BEGIN + steps * STEP)).unwrap();
}

/// Two handles of a transactional store in which a key is committed.
fn two_handles_with_a_key() -> (TempDir, [Store; 2]) {
    let (folder, path) = place();
    let options = renewing(BEGIN).transactional(true);
    let one = options.create(&path).unwrap();
    let other = options.open(&path).unwrap();
    assert!(one.insert(key(1)).unwrap());
    one.commit().unwrap();
    (folder, [one, other])
}

/// In each way to ask for it, from wherever it lies.
#[test]
fn a_key_that_comes_in_each_window_stays() {
    let ways: [&dyn Fn(&Store); 4] = [
        &|store| assert!(!store.insert(key(1)).unwrap()),
        &|store| assert_eq!(store.claim(key(1)).unwrap(), Verdict::Seen),
        &|store| assert!(!store.insert_batch(&keys(0..100)).unwrap().contains(&true)),
        &|store| store.renew_batch(&keys(0..100)).unwrap(),
    ];
    for (number, way) in ways.into_iter().enumerate() {
        for checkpointed in [false, true] {
            let (_folder, path) = place();
            let store = renewing(BEGIN).create(&path).unwrap();
            store.insert_batch(&keys(0..100)).unwrap();
            for round in 1..5 {
                if checkpointed {
                    store.checkpoint().unwrap();
                }
                advance(&store, round * STEPS);
                way(&store);
                // Once a step.
                let log = store.stats().unwrap().log_bytes;
                way(&store);
                assert_eq!(store.stats().unwrap().log_bytes, log, "{number}");
            }
            let (_copy, killed) = image(&path);
            store.close().unwrap();
            for path in [path, killed] {
                let store = renewing(BEGIN + 5 * STEPS * STEP).open(path).unwrap();
                assert!(store.contains(key(1)).unwrap(), "{number}");
                advance(&store, 5 * STEPS + 1);
                assert!(!store.contains(key(1)).unwrap(), "{number}");
            }
        }
    }
}

/// Otherwise a look-up would keep what nothing brings any more.
#[test]
fn a_look_up_renews_nothing() {
    let (_folder, path) = place();
    let store = renewing(BEGIN).create(&path).unwrap();
    assert!(store.insert(key(1)).unwrap());
    advance(&store, STEPS);
    assert!(store.contains(key(1)).unwrap());
    assert!(store.contains_batch(&[key(1)]).unwrap()[0]);
    store.renew_batch(&[key(2)]).unwrap();
    advance(&store, STEPS + 1);
    assert!(!store.contains(key(1)).unwrap());
    assert!(!store.contains(key(2)).unwrap());
}

/// It would be lost with the transaction that inserts it again.
#[test]
fn a_key_that_was_removed_is_pending_while_another_brings_it_back() {
    let (_folder, [one, other]) = two_handles_with_a_key();
    one.checkpoint().unwrap();
    advance(&one, 1);
    assert!(one.remove(key(1)).unwrap());
    one.commit().unwrap();
    assert!(one.insert(key(1)).unwrap());
    assert_eq!(other.claim(key(1)).unwrap(), Verdict::Pending);
    one.close().unwrap();
    assert_eq!(other.claim(key(1)).unwrap(), Verdict::New);
}

/// What another handle renews is seen, and can be removed once that is settled.
#[test]
fn a_key_that_is_being_renewed_is_seen_by_others() {
    let (_folder, [one, other]) = two_handles_with_a_key();
    advance(&one, 1);
    assert!(!one.insert(key(1)).unwrap());
    assert_eq!(one.uncommitted().unwrap().keys, 1);
    assert_eq!(other.claim(key(1)).unwrap(), Verdict::Seen);
    assert_eq!(other.uncommitted().unwrap().keys, 0);
    let refused = other.remove(key(1));
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    one.commit().unwrap();
    assert!(other.remove(key(1)).unwrap());
    other.commit().unwrap();
    assert!(!one.contains(key(1)).unwrap());
}

/// Renewed keys are counted twice until runs are merged. Nothing is refused for that.
#[test]
fn renewals_take_no_room_from_new_keys() {
    let (_folder, path) = place();
    let store = renewing(BEGIN).capacity(1000).create(&path).unwrap();
    store.insert_batch(&keys(0..900)).unwrap();
    store.checkpoint().unwrap();
    advance(&store, 1);
    store.renew_batch(&keys(0..300)).unwrap();
    let new = store.insert_batch(&keys(900..1000)).unwrap();
    assert!(!new.contains(&false));
    advance(&store, 2);
    // The seen ones of a batch that ends with a refusal are renewed too.
    let batch = [keys(300..500), vec![key(1 << 40)]].concat();
    let refused = store.insert_batch(&batch).unwrap_err();
    assert!(matches!(*refused.error, Error::Full { capacity: 1000 }));
    assert_eq!(refused.done, [false; 200]);
    advance(&store, STEPS + 2);
    let found = store.contains_batch(&keys(0..1000)).unwrap();
    let expected = (0..1000).map(|number| (300..500).contains(&number));
    assert!(found.into_iter().eq(expected));
}

/// The record of a renewal would make every hash of its fingerprint seen.
#[test]
fn a_renewal_leaves_exempt_keys_exempt() {
    let (_folder, path) = place();
    let store = renewing(BEGIN)
        .capacity(400)
        .fpr(0.25)
        .create(&path)
        .unwrap();
    for number in 0..300 {
        store.insert(key(number)).unwrap();
    }
    let is_there = |number: &u64| store.contains(key(*number)).unwrap();
    let false_ones: Vec<u64> = (1000..1400).filter(is_there).map(key).collect();
    assert!(false_ones.len() > 20);
    store.checkpoint().unwrap();
    let exempted = store.exempt(&false_ones).unwrap();
    assert!(exempted.exempted > 20, "{exempted:?}");
    let exempt: Vec<u64> = store
        .contains_batch(&false_ones)
        .unwrap()
        .iter()
        .zip(&false_ones)
        .filter(|(found, _)| !**found)
        .map(|(_, key)| *key)
        .collect();
    assert!(exempt.len() > 20);
    advance(&store, 2);
    store.renew_batch(&keys(0..300)).unwrap();
    assert!(!store.contains_batch(&exempt).unwrap().contains(&true));
    store.checkpoint().unwrap();
    assert!(!store.contains_batch(&exempt).unwrap().contains(&true));
}
