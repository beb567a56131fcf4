//! What a store of fingerprints answers, through checkpoints and reopening, compared with a set.

use everseen::testing::{Appending, Options};
use std::collections::{HashMap, HashSet};

use everseen::hash::HashedKey;
use everseen::{Error, Kind, OnDamage, Store, Verdict};
use proptest::prelude::*;

use crate::support::segments::{from, newest};

/// One seed: of another one in some two thousand takes one of a test's keys for another.
fn options() -> Options {
    let options = Options::new().kind(Kind::Fingerprint).buffer(256 << 10);
    options.seed([7; 32])
}

fn keys(range: std::ops::Range<u64>) -> Vec<u64> {
    range.collect()
}

/// Whatever went and came in it.
#[test]
fn a_full_store_refuses_keys_and_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut store = options().capacity(1000).create(&path).unwrap();
    assert!(!store.insert_batch(&keys(0..1000)).unwrap().contains(&false));
    for round in 0..3_u64 {
        assert!(store.remove(round).unwrap());
        assert!(store.insert(5000 + round).unwrap());
        for _ in 0..2 {
            let refused = store.insert(9000_u64);
            assert!(matches!(refused, Err(Error::Full { capacity: 1000 })));
        }
        store.close().unwrap();
        store = options().open(&path).unwrap();
        assert!(store.contains(5000 + round).unwrap());
    }
}

#[test]
fn what_was_inserted_is_there_through_checkpoints_and_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = options().create(&path).unwrap();
    for round in 0..20_u64 {
        let some = keys(round * 5000..(round + 1) * 5000);
        assert!(store.insert_batch(&some).unwrap().iter().all(|new| *new));
        assert!(store.insert_batch(&some).unwrap().iter().all(|new| !*new));
        if round % 3 == 0 {
            store.checkpoint().unwrap();
        }
    }
    let check = |store: &Store| {
        assert!(
            store
                .contains_batch(&keys(0..100_000))
                .unwrap()
                .iter()
                .all(|found| *found)
        );
        let absent = store.contains_batch(&keys(100_000..200_000)).unwrap();
        assert!(absent.iter().all(|found| !*found));
        assert_eq!(store.stats().unwrap().keys, 100_000);
    };
    check(&store);
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    check(&store);
    assert!(store.insert(100_000).unwrap());
    store.close().unwrap();
    let store = Options::new().open_read_only(&path).unwrap();
    assert!(store.contains(100_000).unwrap());
}

#[test]
fn what_was_removed_is_gone_and_comes_back_when_inserted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..50_000)).unwrap();
    store.checkpoint().unwrap();
    let mut removed = Vec::new();
    let hashed: Vec<_> = (0..60_000_u64)
        .map(|key| HashedKey::from_bits(store.hasher().mix(key)))
        .collect();
    store.remove_into(&hashed[..20_000], &mut removed).unwrap();
    assert!(removed.iter().all(|removed| *removed));
    removed.clear();
    store
        .remove_into(&hashed[10_000..20_000], &mut removed)
        .unwrap();
    assert!(removed.iter().all(|removed| !*removed));
    removed.clear();
    store.remove_into(&hashed[50_000..], &mut removed).unwrap();
    assert!(removed.iter().all(|removed| !*removed));
    let check = |store: &Store| {
        let found = store.contains_batch(&keys(0..50_000)).unwrap();
        assert!(
            found
                .iter()
                .enumerate()
                .all(|(key, found)| *found == (key >= 20_000))
        );
        assert_eq!(store.stats().unwrap().keys, 30_000);
    };
    check(&store);
    store.checkpoint().unwrap();
    check(&store);
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    check(&store);
    assert!(
        store
            .insert_batch(&keys(0..20_000))
            .unwrap()
            .iter()
            .all(|new| *new)
    );
    assert!(store.remove(7).unwrap());
    assert!(store.insert(7).unwrap());
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert!(
        store
            .contains_batch(&keys(0..50_000))
            .unwrap()
            .iter()
            .all(|found| *found)
    );
    assert_eq!(store.stats().unwrap().keys, 50_000);
}

/// A large batch after one that was mostly new leaves the buffer to the claim, unless keys were removed in it. That is asked
/// of the buffer of now, which the other handle has begun.
#[test]
fn what_another_handle_has_removed_since_is_new_in_a_large_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = options().background(false);
    let [one, other] = [(); 2].map(|()| options.open_or_create(&path).unwrap());
    assert!(!one.insert_batch(&keys(0..200)).unwrap().contains(&false));
    other.checkpoint().unwrap();
    assert!(other.remove(7_u64).unwrap());
    let new = one.insert_batch(&keys(0..200)).unwrap();
    let new: Vec<_> = (0..200).filter(|place| new[*place]).collect();
    assert_eq!(new, [7]);
}

/// Whatever a transaction has removed counts towards its quota, but a key that is absent still gets its answer.
#[test]
fn a_transaction_that_removes_too_many_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = options().transactional(true);
    let store = options.create(folder.path().join("store")).unwrap();
    let quota = store.uncommitted().unwrap().most;
    for first in [0, quota] {
        let some = keys(first..first + quota);
        store.insert_batch(&some).unwrap();
        store.commit().unwrap();
    }
    // What it inserts itself and takes back counts twice.
    assert!(store.insert(2 * quota).unwrap());
    assert!(store.remove(2 * quota).unwrap());
    for number in 0..quota - 2 {
        assert!(store.remove(number).unwrap());
    }
    let there = quota + 1;
    let refused =
        |error| matches!(error, Error::TransactionTooLarge { quota: got } if got == quota);
    assert!(refused(store.remove(there).unwrap_err()));
    assert!(refused(store.insert(4 * quota).unwrap_err()));
    for gone in [0, 2 * quota, 3 * quota] {
        assert!(!store.remove(gone).unwrap());
    }
    let hasher = store.hasher();
    let mut removed = Vec::new();
    let batch = [0, 3 * quota, there].map(|number| HashedKey::from_bits(hasher.mix(number)));
    assert!(refused(
        store.remove_into(&batch, &mut removed).unwrap_err()
    ));
    assert_eq!(removed, [false, false]);
    store.commit().unwrap();
    assert!(store.remove(there).unwrap());
    // Within one batch, too: the key that comes twice is not refused.
    let some = keys(quota + 2..2 * quota).into_iter();
    let mut batch: Vec<_> = some
        .map(|number| HashedKey::from_bits(hasher.mix(number)))
        .collect();
    batch.push(HashedKey::from_bits(hasher.mix(quota)));
    assert_eq!(batch.len() as u64, quota - 1);
    batch.push(batch[0]);
    removed.clear();
    store.remove_into(&batch, &mut removed).unwrap();
    assert_eq!(
        removed.iter().filter(|removed| **removed).count() as u64,
        quota - 1
    );
}

#[test]
fn stats_and_verify_know_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = options().capacity(200_000).fpr(1e-4);
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys(0..100_000)).unwrap();
    store.close().unwrap();
    let store = options.open(&path).unwrap();
    let (stats, report) = (store.stats().unwrap(), store.verify().unwrap());
    let distinct = report.fingerprints;
    assert!((99_990..=100_000).contains(&distinct), "{distinct}");
    assert_eq!((stats.keys, stats.key_limit), (distinct, 200_000));
    assert!(report.is_ok());
    assert!(
        (stats.fpr_now / 5e-5 - 1.0).abs() < 0.001,
        "{}",
        stats.fpr_now
    );
    assert!((report.fpr() / stats.fpr_now - 1.0).abs() < 1e-9);
    assert!(
        (15.0..18.0).contains(&stats.bits_per_key),
        "{}",
        stats.bits_per_key
    );
    let mut bytes = std::fs::read(&path).unwrap();
    // The middle of the file may lie in a free page.
    let segment = newest(&from(&bytes)).unwrap().segments.remove(0);
    bytes[(segment.first_page + segment.pages / 2) as usize * 4096 + 2000] ^= 1;
    store.close().unwrap();
    std::fs::write(&path, bytes).unwrap();
    let store = options.open(&path).unwrap();
    let report = store.verify().unwrap();
    assert!(!report.is_ok());
    assert_eq!(report.segments.len(), 1, "{:?}", report.segments);
}

/// A step of one of two handles.
#[derive(Debug, Clone)]
enum Step {
    Insert(usize, Vec<u64>),
    Remove(usize, Vec<u64>),
    Commit(usize),
    /// The handle is dropped, with what it has not committed, and opened again.
    Reopen(usize),
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    let some = || (0_usize..2, prop::collection::vec(0_u64..40, 1..12));
    prop_oneof![
        4 => some().prop_map(|(handle, keys)| Step::Insert(handle, keys)),
        4 => some().prop_map(|(handle, keys)| Step::Remove(handle, keys)),
        2 => (0_usize..2).prop_map(Step::Commit),
        1 => (0_usize..2).prop_map(Step::Reopen),
        2 => Just(Step::Checkpoint),
    ]
}

/// The slow twin: what is committed, and what each handle has changed since.
#[derive(Default)]
struct Twin {
    committed: HashSet<u64>,
    open: [HashSet<u64>; 2],
    /// Keys of which a record in the log of this generation counts.
    recorded: HashSet<u64>,
    /// Keys of which each handle has records that don't count yet, and whether one counted before the first of them.
    touched: [HashMap<u64, bool>; 2],
}

impl Twin {
    fn has(&self, handle: usize, key: u64) -> bool {
        self.committed.contains(&key) ^ self.open[handle].contains(&key)
    }

    /// Whether a handle must wait for the other one before it may change a key. An insert and a remove of a key that had
    /// no record before them say more than none: the remove decides, if it is committed.
    fn waits(&self, handle: usize, key: u64) -> bool {
        self.touched[1 - handle].contains_key(&key)
    }

    fn flip(&mut self, handle: usize, key: u64) {
        let recorded = self.recorded.contains(&key);
        let is_recorded = *self.touched[handle].entry(key).or_insert(recorded);
        if !self.open[handle].remove(&key) {
            self.open[handle].insert(key);
        } else if is_recorded {
            // Two records that cancel each other out: the one before them decides again.
            self.touched[handle].remove(&key);
        }
    }

    fn give_up(&mut self, handle: usize) {
        self.open[handle].clear();
        self.touched[handle].clear();
    }

    /// Open transactions go on in the next log, which has none of the records before.
    fn rotate(&mut self) {
        self.recorded.clear();
        for touched in &mut self.touched {
            touched.values_mut().for_each(|recorded| *recorded = false);
        }
    }

    fn commit(&mut self, handle: usize) {
        self.recorded
            .extend(std::mem::take(&mut self.touched[handle]).into_keys());
        for key in std::mem::take(&mut self.open[handle]) {
            if !self.committed.remove(&key) {
                self.committed.insert(key);
            }
        }
    }
}

fn run(steps: &[Step], transactional: bool) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = options().transactional(transactional).background(false);
    let mut twin = Twin::default();
    let first = options.create(&path).unwrap();
    let mut stores = [Some(first), Some(options.open(&path).unwrap())];
    for step in steps {
        match step {
            Step::Insert(handle, keys) => {
                let store = stores[*handle].as_ref().unwrap();
                let hashed: Vec<_> = keys
                    .iter()
                    .map(|key| HashedKey::from_bits(store.hasher().mix(*key)))
                    .collect();
                let mut verdicts = Vec::new();
                store.claim_into(&hashed, &mut verdicts).unwrap();
                for (key, verdict) in keys.iter().zip(verdicts) {
                    let expected = match twin.waits(*handle, *key) {
                        true => Verdict::Pending,
                        false if twin.has(*handle, *key) => Verdict::Seen,
                        false => Verdict::New,
                    };
                    prop_assert_eq!(verdict, expected, "key {}", key);
                    if verdict == Verdict::New {
                        twin.flip(*handle, *key);
                    }
                }
            }
            Step::Remove(handle, keys) => {
                let store = stores[*handle].as_ref().unwrap();
                let hashed: Vec<_> = keys
                    .iter()
                    .map(|key| HashedKey::from_bits(store.hasher().mix(*key)))
                    .collect();
                let mut removed = Vec::new();
                let outcome = store.remove_into(&hashed, &mut removed);
                let pending = keys.iter().position(|key| twin.waits(*handle, *key));
                prop_assert_eq!(outcome.is_err(), pending.is_some());
                prop_assert_eq!(removed.len(), pending.unwrap_or(keys.len()));
                for (key, removed) in keys.iter().zip(removed) {
                    prop_assert_eq!(removed, twin.has(*handle, *key), "key {}", key);
                    if removed {
                        twin.flip(*handle, *key);
                    }
                }
            }
            Step::Commit(handle) => {
                stores[*handle].as_ref().unwrap().commit().unwrap();
                twin.commit(*handle);
            }
            Step::Reopen(handle) => {
                drop(stores[*handle].take());
                stores[*handle] = Some(options.open(&path).unwrap());
                twin.give_up(*handle);
            }
            Step::Checkpoint => {
                stores[0].as_ref().unwrap().checkpoint().unwrap();
                twin.rotate();
            }
        }
        if !transactional {
            (0..2).for_each(|handle| twin.commit(handle));
        }
        for (handle, store) in stores.iter().enumerate() {
            let all: Vec<u64> = (0..40).collect();
            let store = store.as_ref().unwrap();
            let found = store.contains_batch(&all).unwrap();
            let mut keys = twin.committed.len() as i64;
            for key in all {
                let own = twin.has(handle, key);
                let other = twin.open[1 - handle].contains(&key);
                let expected = own || other;
                prop_assert_eq!(
                    found[key as usize],
                    expected,
                    "handle {} key {}",
                    handle,
                    key
                );
                prop_assert_eq!(
                    store.contains(key).unwrap(),
                    expected,
                    "handle {} key {}",
                    handle,
                    key
                );
                for open in &twin.open {
                    if open.contains(&key) {
                        keys += if twin.committed.contains(&key) { -1 } else { 1 };
                    }
                }
            }
            prop_assert_eq!(store.stats().unwrap().keys as i64, keys);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn two_handles_answer_as_a_set(steps in prop::collection::vec(step(), 1..40)) {
        run(&steps, false)?;
    }

    #[test]
    fn two_transactional_handles_answer_as_a_set(steps in prop::collection::vec(step(), 1..40)) {
        run(&steps, true)?;
    }
}

/// Each kind of page of a store is damaged once, and repaired.
#[test]
fn what_is_damaged_is_given_up_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // One run: what is lost of others is another matter.
    let options = || options().least_run(u64::MAX);
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..50_000)).unwrap();
    store.close().unwrap();
    let good = std::fs::read(&path).unwrap();
    let pages = good.len() / 4096 - 32;
    let mut kinds = [0; 2];
    for page in 0..pages {
        let mut bytes = good.clone();
        bytes[(32 + page) * 4096 + 100] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let store = options().open(&path).unwrap();
        let found = store.verify().unwrap().segments;
        let Some(damage) = found.first() else {
            // Free room.
            store.close().unwrap();
            continue;
        };
        let kind = usize::from(damage.keys > 0);
        kinds[kind] += 1;
        if kinds[kind] > 3 {
            store.close().unwrap();
            continue;
        }
        assert_eq!((found.len(), damage.page), (1, 32 + page as u64));
        let seen = store.repair(OnDamage::Seen).unwrap_err();
        assert!(matches!(seen, Error::InvalidOption { .. }), "{seen}");
        assert_eq!(store.repair(OnDamage::NeverSeen).unwrap().segments, found);
        assert!(store.verify().unwrap().is_ok());
        let there = store.contains_batch(&keys(0..50_000)).unwrap();
        let lost = there.iter().filter(|found| !**found).count() as u64;
        // Fences and directory are made anew from the rest.
        let about = if damage.keys > 0 { 500 } else { 0 };
        assert!(
            lost.abs_diff(damage.keys) <= about,
            "{lost} lost: {damage:?}"
        );
        assert_eq!(store.stats().unwrap().keys, 50_000 - lost);
        let new = store.insert_batch(&keys(0..50_000)).unwrap();
        assert_eq!(new.iter().filter(|new| **new).count() as u64, lost);
        store.close().unwrap();
    }
    // Pages of fences, of one segment or two, and of both copies of the directory; and pages of fingerprints.
    assert!((3..=4).contains(&kinds[0]) && kinds[1] > 30, "{kinds:?}");
}
