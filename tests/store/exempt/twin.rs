//! Anything that may happen, against the slow obvious twin: two sets in memory.

use std::collections::BTreeSet;

use everseen::{Kind, Store};
use proptest::prelude::*;

use super::setting::{ABSENT, hashes, listed, options};
use crate::support::fault::FaultStorage;
use crate::support::files::place;
use crate::support::numbers::key;

#[derive(Debug, Clone)]
enum Act {
    Insert(Vec<u64>),
    Exempt(Vec<u64>),
    Checkpoint,
    Commit,
    Close,
    Drop,
}

fn act() -> impl Strategy<Value = Act> {
    let some = || prop::collection::vec(0_u64..300, 1..120);
    prop_oneof![
        4 => some().prop_map(Act::Insert),
        3 => some().prop_map(Act::Exempt),
        1 => Just(Act::Checkpoint),
        1 => Just(Act::Commit),
        1 => Just(Act::Close),
        1 => Just(Act::Drop),
    ]
}

/// What there is, known for certain.
#[derive(Debug, Default)]
struct Twin {
    /// Inserted, and not exempted since.
    held: BTreeSet<u64>,
    /// In no pages yet.
    buffered: BTreeSet<u64>,
    /// Not committed, in a transactional store.
    open: BTreeSet<u64>,
    exempt: BTreeSet<u64>,
}

impl Twin {
    fn settle(&mut self) {
        let open = &self.open;
        let (stay, go): (BTreeSet<u64>, BTreeSet<u64>) =
            self.buffered.iter().partition(|key| open.contains(key));
        self.exempt.retain(|key| !go.contains(key));
        self.buffered = stay;
    }

    fn give_up(&mut self) {
        for key in std::mem::take(&mut self.open) {
            self.held.remove(&key);
            self.buffered.remove(&key);
        }
    }
}

fn check(store: &Store, twin: &Twin) {
    let keys: Vec<u64> = (0..300).collect();
    let answers = store.contains_batch(&hashes(keys.clone())).unwrap();
    for (number, answer) in keys.iter().zip(answers) {
        let held = twin.held.contains(number);
        let exempt = twin.exempt.contains(number) && !twin.buffered.contains(number);
        // Neither: whatever the pages say.
        if held || exempt {
            assert_eq!(answer, held, "key {number} of {twin:?}");
        }
        assert_eq!(store.contains(key(*number)).unwrap(), answer);
    }
    let expected: BTreeSet<u64> = twin
        .exempt
        .iter()
        .map(|number| store.hasher().mix(key(*number)))
        .collect();
    let listed: BTreeSet<u64> = listed(store).into_iter().collect();
    assert_eq!(listed, expected, "{twin:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn whatever_happens_two_sets_tell_the_same(
        grows in any::<bool>(),
        transactional in any::<bool>(),
        exclusive in any::<bool>(),
        acts in prop::collection::vec(act(), 1..30),
    ) {
        let kind = if grows { Kind::Scalable } else { Kind::Bloom };
        let options = options(kind)
            .transactional(transactional)
            .exclusive(exclusive)
            .storage(FaultStorage::without_syncs().shared());
        let (_folder, path) = place();
        let mut store = options.create(&path).unwrap();
        store.insert_batch(&hashes(ABSENT * 4..ABSENT * 4 + 500)).unwrap();
        store.commit().unwrap();
        let mut twin = Twin::default();
        for act in acts {
            match act {
                Act::Insert(numbers) => {
                    let new = store.insert_batch(&hashes(numbers.clone())).unwrap();
                    for (number, new) in numbers.iter().zip(new) {
                        let exempt = twin.exempt.contains(number) && !twin.buffered.contains(number);
                        prop_assert!(!(new && twin.held.contains(number)), "{number} won twice");
                        prop_assert!(new || !exempt, "{number} is exempt and was seen");
                        if new {
                            twin.held.insert(*number);
                            twin.buffered.insert(*number);
                            if transactional {
                                twin.open.insert(*number);
                            }
                        }
                    }
                }
                Act::Exempt(numbers) => {
                    let report = store.exempt(&hashes(numbers.clone())).unwrap();
                    let distinct: BTreeSet<u64> = numbers.into_iter().collect();
                    let fresh: Vec<u64> = distinct
                        .iter()
                        .copied()
                        .filter(|key| !twin.buffered.contains(key) && !twin.exempt.contains(key))
                        .collect();
                    let present = distinct.iter().filter(|key| twin.buffered.contains(key)).count();
                    prop_assert_eq!((report.exempted, report.present), (fresh.len() as u64, present as u64));
                    if !fresh.is_empty() {
                        for key in fresh {
                            twin.held.remove(&key);
                            twin.exempt.insert(key);
                        }
                        twin.settle();
                    }
                }
                Act::Checkpoint => {
                    store.checkpoint().unwrap();
                    twin.settle();
                }
                Act::Commit => {
                    store.commit().unwrap();
                    twin.open.clear();
                }
                Act::Close | Act::Drop => {
                    if matches!(act, Act::Close) {
                        store.close().unwrap();
                    }
                    drop(store);
                    twin.give_up();
                    twin.settle();
                    store = options.open(&path).unwrap();
                }
            }
            check(&store, &twin);
        }
        prop_assert!(store.verify().unwrap().is_ok());
    }
}
