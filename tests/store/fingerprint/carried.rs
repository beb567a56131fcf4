//! A transaction that removes keys goes on in the next buffer, whoever begins that.

use everseen::testing::Appending;
use std::sync::atomic::{AtomicBool, Ordering};

use everseen::hash::HashedKey;
use everseen::{Kind, Store, Verdict};

use crate::support::files::{place, small};
use crate::support::numbers::key;
use crate::support::share::all_some_or;
use crate::support::unsynced::Unsynced;

const ROTATIONS: u64 = 1500;
/// The same, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 200;
const LEAST_TURNS: u64 = 100;

/// Removes keys and inserts them again, in transactions of some turns. What is removed is absent to its own handle.
fn change(store: &Store, first: u64, count: u64, is_over: &AtomicBool) -> u64 {
    let keys: Vec<u64> = (first..first + count).map(key).collect();
    let hasher = store.hasher();
    let hashed: Vec<_> = keys
        .iter()
        .map(|raw| HashedKey::from_bits(hasher.mix(*raw)))
        .collect();
    let mut turns = 0;
    while turns <= LEAST_TURNS || !is_over.load(Ordering::Relaxed) {
        let mut removed = Vec::new();
        store.remove_into(&hashed, &mut removed).unwrap();
        assert!(removed.iter().all(|removed| *removed), "turn {turns}");
        let found = store.contains_batch(&hashed).unwrap();
        assert!(!found.contains(&true), "turn {turns}: removed, and found");
        assert!(!store.contains(keys[0]).unwrap(), "turn {turns}");
        let mut verdicts = Vec::new();
        store.claim_into(&hashed, &mut verdicts).unwrap();
        let is_new = verdicts.iter().all(|verdict| *verdict == Verdict::New);
        assert!(is_new, "turn {turns}: {verdicts:?}");
        turns += 1;
        if turns % 8 == 0 {
            store.commit().unwrap();
        }
    }
    store.commit().unwrap();
    turns
}

#[test]
fn what_a_transaction_has_removed_is_absent_to_it_while_another_handle_rotates() {
    // One key, some that are looked up under the lock, and some that are looked up before.
    for count in [1, 8, 80] {
        let (_folder, path) = place();
        let options = small().kind(Kind::Fingerprint).capacity(10_000).fpr(1e-12);
        let options = options.transactional(true).storage(Unsynced::new());
        let store = options.create(&path).unwrap();
        let keys: Vec<u64> = (0..100).map(key).collect();
        store.insert_batch(&keys).unwrap();
        store.commit().unwrap();
        let other = options.writer("other").open(&path).unwrap();
        let is_over = AtomicBool::new(false);
        let turns = std::thread::scope(|scope| {
            let changing = scope.spawn(|| change(&store, 10, count, &is_over));
            for rotation in 0..all_some_or(ROTATIONS, 2 * FEW, FEW) {
                if changing.is_finished() {
                    break;
                }
                other.insert(key(1000 + rotation % 1000)).unwrap();
                other.commit().unwrap();
                other.checkpoint().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            changing.join().unwrap()
        });
        println!("{count} keys, {turns} turns");
        assert!(turns > LEAST_TURNS, "{turns}");
        let found = store.contains_batch(&keys).unwrap();
        assert!(found.iter().all(|found| *found));
    }
}
