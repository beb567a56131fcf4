//! Keys that are looked up before their turn, against the slow twin: a set in memory.

use everseen::testing::{Appending, Options};
use std::collections::{HashSet, VecDeque};
use std::sync::mpsc::sync_channel;

use everseen::hash::HashedKey;
use everseen::{BatchError, ClaimOptions, Error, Kind, Precheck, Store, Verdict};
use proptest::prelude::*;

use crate::support::repeating::{insert_by_other, key, numbers, options};

/// One step of a program that prechecks lists of keys. Numbers choose keys out of a few thousand, so that many repeat.
#[derive(Debug, Clone)]
enum Step {
    Precheck {
        seed: u64,
        keys: usize,
        is_lookup: bool,
    },
    /// Claim this many keys at most of the oldest list that was prechecked.
    Claim {
        most: usize,
        until_pending: bool,
    },
    /// Look that many keys up, and claim those that are absent as a list of their own, perhaps after other keys came.
    Select {
        most: usize,
        between: usize,
    },
    Commit,
    Checkpoint,
    /// Another handle inserts keys and commits.
    Others {
        seed: u64,
        keys: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<u64>(), 1..6000_usize, any::<bool>())
            .prop_map(|(seed, keys, is_lookup)| Step::Precheck { seed, keys, is_lookup }),
        6 => (1..5000_usize, any::<bool>())
            .prop_map(|(most, until_pending)| Step::Claim { most, until_pending }),
        3 => (1..3000_usize, 0..2500_usize)
            .prop_map(|(most, between)| Step::Select { most, between }),
        1 => Just(Step::Commit),
        1 => Just(Step::Checkpoint),
        1 => (any::<u64>(), 1..2000_usize).prop_map(|(seed, keys)| Step::Others { seed, keys }),
    ];
    prop::collection::vec(step, 1..24)
}

fn hashed(store: &Store, numbers: &[u64]) -> Vec<HashedKey> {
    numbers.iter().map(|number| key(store, *number)).collect()
}

/// A list that was prechecked, and how many of its keys have their verdicts.
struct List {
    numbers: Vec<u64>,
    keys: Vec<HashedKey>,
    precheck: Precheck,
    done: usize,
}

impl List {
    fn new(store: &Store, numbers: Vec<u64>) -> Self {
        let keys = hashed(store, &numbers);
        let precheck = Precheck::for_claims(store, &keys).unwrap();
        Self {
            numbers,
            keys,
            precheck,
            done: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.done == self.keys.len()
    }

    fn claim(
        &mut self,
        store: &Store,
        most: usize,
        until_pending: bool,
        verdicts: &mut Vec<Verdict>,
    ) -> everseen::Result<()> {
        let range = self.done..self.keys.len().min(self.done + most);
        let precheck = &mut self.precheck;
        match until_pending {
            true => BatchError::append(
                precheck.claim(
                    store,
                    &self.keys,
                    range,
                    ClaimOptions::new().until_pending(true),
                ),
                verdicts,
            ),
            false => BatchError::append(
                precheck.claim(store, &self.keys, range, ClaimOptions::new()),
                verdicts,
            ),
        }
    }
}

impl List {
    /// Looks up keys, inserts `between` others, and claims those that were absent.
    fn select(
        &mut self,
        store: &Store,
        most: usize,
        between: usize,
        twin: &mut HashSet<u64>,
    ) -> Result<(), TestCaseError> {
        let range = self.done..self.keys.len().min(self.done + most);
        // What was there before is kept.
        let mut found = vec![true];
        self.precheck
            .contains(store, &self.keys, range.clone())
            .map(|found_now| found.extend(found_now))
            .unwrap();
        let found = &found[1..];
        prop_assert_eq!(found.len(), range.len());
        let mut held = HashSet::new();
        let mut places = Vec::new();
        for (place, found) in range.clone().zip(found) {
            let number = self.numbers[place];
            prop_assert_eq!(*found, twin.contains(&number), "key {}", number);
            if !found && held.insert(number) {
                places.push(place);
            }
        }
        let keys: Vec<_> = places.iter().map(|place| self.keys[*place]).collect();
        let mut selected = self.precheck.select(&places);
        // No more may be uncommitted than some 1,600.
        store.commit().unwrap();
        // Far from those of lists.
        for first in (0..between as u64).step_by(500) {
            let others: Vec<_> = (first..first + 500)
                .map(|number| 1 << 40 | number)
                .collect();
            store
                .claim_batch(&hashed(store, &others), ClaimOptions::new().if_absent(true))
                .unwrap();
            store.commit().unwrap();
        }
        for first in (0..places.len()).step_by(500) {
            let part = first..places.len().min(first + 500);
            let mut verdicts = Vec::new();
            BatchError::append(
                selected.claim(store, &keys, part.clone(), ClaimOptions::new()),
                &mut verdicts,
            )
            .unwrap();
            for (place, verdict) in places[part].iter().zip(verdicts) {
                let number = self.numbers[*place];
                prop_assert_eq!(verdict, Verdict::New, "key {}", number);
                twin.insert(number);
            }
            store.commit().unwrap();
        }
        self.done = range.end;
        Ok(())
    }
}

fn run(steps: &[Step], options: &Options) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = options.create(&path).unwrap();
    let other = options.open(&path).unwrap();
    let mut twin = HashSet::new();
    let mut lists = VecDeque::new();
    for step in steps {
        match *step {
            Step::Precheck {
                seed,
                keys,
                is_lookup,
            } => {
                let mut list = List::new(&store, numbers(seed, keys));
                if is_lookup {
                    list.precheck = Precheck::for_lookups(&store, &list.keys).unwrap();
                }
                lists.push_back(list);
            }
            Step::Claim {
                most,
                until_pending,
            } => {
                let Some(list) = lists.front_mut() else {
                    continue;
                };
                let mut verdicts = Vec::new();
                match list.claim(&store, most, until_pending, &mut verdicts) {
                    // Uncommitted keys fill the buffer. None of the others was claimed.
                    Err(Error::TransactionTooLarge { .. }) => drop(store.commit().unwrap()),
                    other => other.unwrap(),
                }
                prop_assert!(verdicts.len() <= most);
                for verdict in verdicts {
                    let number = list.numbers[list.done];
                    let is_new = twin.insert(number);
                    prop_assert_eq!(verdict == Verdict::New, is_new, "key {}", number);
                    prop_assert_ne!(verdict, Verdict::Pending);
                    list.done += 1;
                }
                if list.is_done() {
                    lists.pop_front();
                }
            }
            Step::Select { most, between } => {
                if let Some(list) = lists.front_mut() {
                    list.select(&store, most, between, &mut twin)?;
                    if list.is_done() {
                        lists.pop_front();
                    }
                }
            }
            Step::Commit => drop(store.commit().unwrap()),
            Step::Checkpoint => store.checkpoint().unwrap(),
            Step::Others { seed, keys } => {
                insert_by_other(&store, &other, &numbers(seed, keys), &mut twin);
            }
        }
    }
    Ok(())
}

fn some_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Bloom,
        Kind::Scalable,
        Kind::Fingerprint,
        Kind::Counting,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn prechecked_keys_get_the_verdicts_of_a_set(
        steps in steps(),
        transactional in any::<bool>(),
        kind in some_kind(),
        background in any::<bool>(),
    ) {
        let transactional = transactional && kind != Kind::Counting;
        let mut options = options().transactional(transactional).background(background).kind(kind);
        if kind == Kind::Scalable {
            options = options.capacity(4000);
        }
        run(&steps, &options)?;
    }
}

/// One thread prechecks while another one claims, through many rotations. All keys come again, soon or much later.
#[test]
fn a_thread_may_look_ahead_of_another() {
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        for transactional in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let options = options().kind(kind).transactional(transactional);
            let store = &options.create(folder.path().join("store")).unwrap();
            let (send, lists) = sync_channel(2);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let near = (0..30_u64).map(|seed| numbers(seed * 700, 1500));
                    near.for_each(|numbers| send.send(List::new(store, numbers)).unwrap());
                });
                let mut twin = HashSet::new();
                for mut list in lists {
                    let mut verdicts = Vec::new();
                    list.claim(store, usize::MAX, false, &mut verdicts).unwrap();
                    store.commit().unwrap();
                    assert_eq!(verdicts.len(), list.numbers.len());
                    for (number, verdict) in list.numbers.iter().zip(verdicts) {
                        assert_eq!(verdict == Verdict::New, twin.insert(*number), "{number}");
                    }
                }
            });
            let generation = store.stats().unwrap().generation;
            assert!(generation > 2, "only {generation}: {options:?}");
        }
    }
}

/// A list waits while its keys come into the store, into the active buffer or through several into the pages.
#[test]
fn what_came_after_the_look_is_seen() {
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        for between in [100, 20_000] {
            let folder = tempfile::tempdir().unwrap();
            let options = options().kind(kind);
            let store = options.create(folder.path().join("store")).unwrap();
            let mut list = List::new(&store, (0..between).collect());
            let numbers: Vec<u64> = (0..between).step_by(2).collect();
            let mut verdicts = Vec::new();
            store
                .claim_into(&hashed(&store, &numbers), &mut verdicts)
                .unwrap();
            verdicts.clear();
            list.claim(&store, usize::MAX, false, &mut verdicts)
                .unwrap();
            for (number, verdict) in verdicts.iter().enumerate() {
                let is_new = *verdict == Verdict::New;
                assert_eq!(is_new, number % 2 == 1, "{kind} {between}: {number}");
            }
        }
    }
}

/// Two rotations make the look at a later range anew, which says nothing of the keys before it.
#[test]
fn ranges_come_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = options().create(folder.path().join("store")).unwrap();
    let mut list = List::new(&store, (0..2000).collect());
    for _ in 0..2 {
        store.insert(7_u64.to_le_bytes()).unwrap();
        store.insert(1007_u64.to_le_bytes()).unwrap();
        store.checkpoint().unwrap();
    }
    let mut verdicts = Vec::new();
    list.done = 1000;
    list.claim(&store, 1000, false, &mut verdicts).unwrap();
    list.done = 0;
    list.claim(&store, 1000, false, &mut verdicts).unwrap();
    let seen: Vec<_> = (0..2000)
        .filter(|turn| verdicts[*turn] == Verdict::Seen)
        .collect();
    assert_eq!(seen, [7, 1007]);
}

/// The answers of a look hold until anything is inserted, by whichever handle.
#[test]
fn a_lookup_is_asked_after_others_have_inserted() {
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        for transactional in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let options = options().kind(kind).transactional(transactional);
            let [store, other] = [(); 2].map(|()| options.open_or_create(&path).unwrap());
            store.insert(3_u64.to_le_bytes()).unwrap();
            let keys = hashed(&store, &(0..1000).collect::<Vec<_>>());
            let mut precheck = Precheck::for_lookups(&store, &keys).unwrap();
            let mut came = HashSet::from([3]);
            for (handle, number) in [(&store, 3), (&other, 7), (&store, 700), (&other, 999)] {
                handle.insert(u64::to_le_bytes(number)).unwrap();
                came.insert(number);
                let mut found = Vec::new();
                precheck
                    .contains(&store, &keys, 0..1000)
                    .map(|found_now| found.extend(found_now))
                    .unwrap();
                let answers = (0..).zip(found);
                let found: HashSet<u64> = answers
                    .filter_map(|(number, found)| found.then_some(number))
                    .collect();
                assert_eq!(found, came, "{kind}, {transactional}");
            }
        }
    }
}

/// Of keys that were selected, those that came since are seen, whichever places they had.
#[test]
fn selected_keys_are_looked_for_where_they_may_have_come() {
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        for checkpoints in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            let store = options()
                .kind(kind)
                .create(folder.path().join("store"))
                .unwrap();
            let list = List::new(&store, (0..2000).collect());
            let places: Vec<_> = (0..2000).rev().step_by(3).collect();
            let keys: Vec<_> = places.iter().map(|place| list.keys[*place]).collect();
            let mut selected = list.precheck.select(&places);
            store.insert(1999_u64.to_le_bytes()).unwrap();
            for number in 0..checkpoints {
                store.checkpoint().unwrap();
                store.insert((1000_u64 - number).to_le_bytes()).unwrap();
            }
            let mut verdicts = Vec::new();
            BatchError::append(
                selected.claim(&store, &keys, 0..keys.len(), ClaimOptions::new()),
                &mut verdicts,
            )
            .unwrap();
            for (place, verdict) in places.iter().zip(verdicts) {
                let came = *place == 1999 || (1001 - checkpoints as usize..=1000).contains(place);
                assert_eq!(
                    verdict == Verdict::New,
                    !came,
                    "{kind}, {checkpoints}: {place}"
                );
            }
        }
    }
}

#[test]
fn a_pending_key_ends_the_claim() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = options().kind(Kind::Fingerprint).transactional(true);
    let [store, other] = [(); 2].map(|()| options.open_or_create(&path).unwrap());
    let mut list = List::new(&store, (0..100).collect());
    assert!(other.insert(50_u64.to_le_bytes()).unwrap());
    let mut verdicts = Vec::new();
    list.claim(&store, 1000, true, &mut verdicts).unwrap();
    assert_eq!(verdicts.pop(), Some(Verdict::Pending));
    assert_eq!(verdicts, [Verdict::New; 50]);
    other.commit().unwrap();
    list.done = 50;
    list.claim(&store, 1000, true, &mut verdicts).unwrap();
    assert_eq!((verdicts.len(), verdicts[50]), (100, Verdict::Seen));
    assert_eq!(verdicts[51..], [Verdict::New; 49]);
}

/// A precheck of other keys says nothing where that can be seen.
#[test]
fn a_list_of_another_length_is_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = options().create(folder.path().join("store")).unwrap();
    store.insert(1_u64.to_le_bytes()).unwrap();
    store.checkpoint().unwrap();
    let absent = hashed(&store, &Vec::from_iter(1000..2000));
    let mut precheck = Precheck::for_claims(&store, &absent).unwrap();
    let keys = hashed(&store, &[0, 1]);
    let mut verdicts = Vec::new();
    BatchError::append(
        precheck.claim(&store, &keys, 0..2, ClaimOptions::new()),
        &mut verdicts,
    )
    .unwrap();
    assert_eq!(verdicts, [Verdict::New, Verdict::Seen]);
}

#[test]
fn a_handle_that_is_closed_or_reads_claims_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = options().create(&path).unwrap();
    let mut list = List::new(&store, (0..100).collect());
    store.close().unwrap();
    let closed = Precheck::for_claims(&store, &list.keys).unwrap_err();
    assert!(matches!(closed, Error::Closed), "{closed:?}");
    let mut verdicts = Vec::new();
    let closed = list.claim(&store, 100, false, &mut verdicts).unwrap_err();
    assert!(matches!(closed, Error::Closed), "{closed:?}");
    let store = options().open_read_only(&path).unwrap();
    let mut list = List::new(&store, (0..100).collect());
    let refused = list.claim(&store, 100, false, &mut verdicts).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly), "{refused:?}");
    assert_eq!(verdicts, []);
}
