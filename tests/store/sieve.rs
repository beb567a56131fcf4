//! A sieve against its slow twin, a set in memory that is asked key by key.

use std::collections::HashSet;

use everseen::testing::Options;
use everseen::{Error, Kind, Sieve, Sweep, Verdict};
use proptest::prelude::*;

use crate::support::repeating::{insert_by_other, key, numbers, options};

/// One step of a program that uses a sieve. Numbers choose keys out of a few thousand, so that many repeat.
#[derive(Debug, Clone)]
enum Step {
    /// Push this many keys.
    Push {
        seed: u64,
        keys: usize,
    },
    /// Take this many verdicts at most.
    Claim {
        most: usize,
    },
    /// Ask this many keys at most.
    Ask {
        most: usize,
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
        4 => (any::<u64>(), 1..6000_usize).prop_map(|(seed, keys)| Step::Push { seed, keys }),
        4 => (1..5000_usize).prop_map(|most| Step::Claim { most }),
        1 => (1..3000_usize).prop_map(|most| Step::Ask { most }),
        1 => Just(Step::Commit),
        1 => Just(Step::Checkpoint),
        1 => (any::<u64>(), 1..2000_usize).prop_map(|(seed, keys)| Step::Others { seed, keys }),
    ];
    prop::collection::vec(step, 1..24)
}

/// Runs the steps on a store and its twin.
fn run(steps: &[Step], options: &Options, sweep: Sweep) -> Result<u64, TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = options.create(&path).unwrap();
    let other = options.open(&path).unwrap();
    let mut twin = HashSet::new();
    let mut sieve = Sieve::new(&store).sweep(sweep);
    let (mut pushed, mut answered) = (Vec::new(), 0);
    for step in steps {
        match *step {
            Step::Push { seed, keys } => {
                for number in numbers(seed, keys) {
                    sieve.push(key(&store, number), number);
                    pushed.push(number);
                }
            }
            Step::Claim { most } => {
                let first = answered;
                let claimed = sieve.claim(most, |number, verdict| {
                    assert_eq!(number, pushed[answered], "in order");
                    let expected = match twin.insert(number) {
                        true => Verdict::New,
                        false => Verdict::Seen,
                    };
                    assert_eq!(verdict, expected, "key {number}");
                    answered += 1;
                });
                match claimed {
                    // Uncommitted keys fill the buffer. None of the others was claimed.
                    Err(Error::TransactionTooLarge { .. }) => {
                        store.commit().unwrap();
                    }
                    other => other.unwrap(),
                }
                prop_assert!(answered - first <= most);
            }
            Step::Ask { most } => {
                sieve
                    .contains(most, |number, there| {
                        assert_eq!(number, pushed[answered], "in order");
                        assert_eq!(there, twin.contains(&number), "key {number}");
                        answered += 1;
                    })
                    .unwrap();
            }
            Step::Commit => drop(store.commit().unwrap()),
            Step::Checkpoint => store.checkpoint().unwrap(),
            Step::Others { seed, keys } => {
                insert_by_other(&store, &other, &numbers(seed, keys), &mut twin);
            }
        }
        prop_assert_eq!(sieve.len(), pushed.len() - answered);
        let waiting: Vec<_> = pushed[answered..]
            .iter()
            .map(|it| key(&store, *it))
            .collect();
        prop_assert_eq!(sieve.waiting(), &waiting[..]);
    }
    Ok(sieve.sweeps())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_sieve_answers_as_a_set_does(
        steps in steps(),
        transactional in any::<bool>(),
        kind in prop::sample::select(vec![Kind::Bloom, Kind::Scalable, Kind::Fingerprint]),
        sweeps in any::<bool>(),
        background in any::<bool>(),
    ) {
        let mut options = options().transactional(transactional).background(background).kind(kind);
        if kind == Kind::Scalable {
            options = options.capacity(4000);
        }
        let sweep = if sweeps { Sweep::Always } else { Sweep::Never };
        let swept = run(&steps, &options, sweep)?;
        prop_assert!(sweeps || swept == 0);
    }
}

/// A window of which the first keys rotate the buffer twice, so that what the sweep found is too old for the last.
#[test]
fn what_came_into_the_pages_after_the_sweep_is_seen() {
    // Repeats come close to what they repeat, or far behind it.
    let numbers: Vec<u64> = (0..20_000).chain((0..20_000).rev()).collect();
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        for (asks, background) in [(false, false), (true, false), (false, true), (true, true)] {
            into_the_pages_of(&options().kind(kind).background(background), &numbers, asks);
        }
    }
}

fn into_the_pages_of(options: &Options, numbers: &[u64], asks: bool) {
    let folder = tempfile::tempdir().unwrap();
    let store = options.create(folder.path().join("store")).unwrap();
    let mut sieve = Sieve::new(&store).sweep(Sweep::Always);
    for number in numbers {
        sieve.push(key(&store, *number), *number);
    }
    let mut new = 0;
    sieve
        .claim(20_000, |_, verdict| {
            new += u64::from(verdict == Verdict::New)
        })
        .unwrap();
    assert_eq!(new, 20_000);
    assert!(store.stats().unwrap().generation > 2, "nothing was rotated");
    let mut seen = 0;
    if asks {
        sieve
            .contains(20_000, |_, there| seen += u64::from(there))
            .unwrap();
    } else {
        let count = |_, verdict| seen += u64::from(verdict == Verdict::Seen);
        sieve.claim(20_000, count).unwrap();
    }
    assert_eq!(seen, 20_000, "asks: {asks}, {options:?}");
    assert!(sieve.sweeps() >= 1 && sieve.is_empty());
}

/// A key of the window that another handle inserts between sweep and turn.
#[test]
fn what_others_inserted_after_the_sweep_is_seen() {
    for (kind, transactional) in [Kind::Bloom, Kind::Fingerprint]
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = options().kind(kind).transactional(transactional);
        let [store, other] = [(); 2].map(|()| options.open_or_create(&path).unwrap());
        let mut sieve = Sieve::new(&store).sweep(Sweep::Always);
        for number in 0..100 {
            sieve.push(key(&store, number), number);
        }
        sieve.close_window().unwrap();
        assert!(other.insert(50_u64.to_le_bytes()).unwrap());
        assert!(other.insert(51_u64.to_le_bytes()).unwrap());
        let mut answers = Vec::new();
        let is_pending = sieve.claim_until_pending(1000, |number, verdict| {
            answers.push((number, verdict));
        });
        assert_eq!(is_pending.unwrap(), transactional);
        if transactional {
            // The pending key and those behind it still wait, whoever claims them meanwhile.
            assert_eq!((answers.len(), sieve.len()), (50, 50));
            assert!(!sieve.claim_until_pending(0, |_, _| {}).unwrap());
            assert_eq!(other.claim(60_u64.to_le_bytes()).unwrap(), Verdict::New);
            other.commit().unwrap();
            let is_pending = sieve.claim_until_pending(1000, |number, verdict| {
                answers.push((number, verdict));
            });
            assert!(!is_pending.unwrap());
        }
        for (number, verdict) in answers {
            let seen = [50, 51].contains(&number) || transactional && number == 60;
            assert_eq!(verdict == Verdict::Seen, seen, "{number}");
        }
    }
}

#[test]
fn a_full_store_takes_the_keys_before_the_one_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let store = options()
        .capacity(1000)
        .create(folder.path().join("store"))
        .unwrap();
    let mut sieve = Sieve::new(&store).sweep(Sweep::Always);
    for number in 0..3000 {
        sieve.push(key(&store, number), number);
    }
    let mut taken = Vec::new();
    let outcome = sieve.claim(usize::MAX, |number, _| taken.push(number));
    let limit = store.fullness().unwrap().limit;
    assert!(matches!(outcome, Err(Error::Full { capacity }) if capacity == limit));
    assert_eq!(taken, (0..limit).collect::<Vec<_>>());
    assert_eq!(sieve.waiting()[0], key(&store, limit));
}

#[test]
fn keys_pushed_behind_a_closed_window_wait_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let store = options().create(folder.path().join("store")).unwrap();
    let mut sieve = Sieve::new(&store).sweep(Sweep::Always).memory(13 * 100);
    assert_eq!(sieve.most_keys(), 100);
    for number in 0..100 {
        assert!(!sieve.is_full());
        sieve.push(key(&store, number), number);
    }
    assert!(sieve.is_full());
    sieve.close_window().unwrap();
    for number in 0..10 {
        sieve.push(key(&store, number), 100 + number);
    }
    let mut got = Vec::new();
    sieve
        .claim(usize::MAX, |number, verdict| got.push((number, verdict)))
        .unwrap();
    assert_eq!((got.len(), sieve.len(), sieve.sweeps()), (100, 10, 1));
    sieve
        .claim(usize::MAX, |number, verdict| got.push((number, verdict)))
        .unwrap();
    assert_eq!((got.len(), sieve.len(), sieve.sweeps()), (110, 0, 2));
    for (at, (number, verdict)) in (0..).zip(got) {
        assert_eq!((number, verdict == Verdict::New), (at, at < 100));
    }
}

#[test]
fn counting_stores_and_those_in_memory_are_not_swept() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, sweep) in [
        (Kind::Counting, Sweep::Always),
        (Kind::Bloom, Sweep::Cheaper),
    ] {
        let options = options().kind(kind);
        let store = options
            .create(folder.path().join(kind.to_string()))
            .unwrap();
        let mut sieve = Sieve::new(&store).sweep(sweep);
        assert!(!sieve.gathers().unwrap());
        for number in 0..2000 {
            sieve.push(key(&store, number % 1000), number);
        }
        let mut new = 0;
        sieve
            .claim(usize::MAX, |_, verdict| {
                new += u64::from(verdict == Verdict::New)
            })
            .unwrap();
        assert_eq!(sieve.sweeps(), 0);
        assert!(new >= 1000, "{new}");
    }
}

#[test]
fn a_handle_that_reads_may_ask_and_not_claim() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = options().create(&path).unwrap();
    store.insert(7_u64.to_le_bytes()).unwrap();
    store.close().unwrap();
    let store = options().open_read_only(&path).unwrap();
    let mut sieve = Sieve::new(&store).sweep(Sweep::Always);
    for number in 0..10 {
        sieve.push(key(&store, number), number);
    }
    let refused = sieve.claim(usize::MAX, |_, _| panic!("claimed"));
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    let mut there = Vec::new();
    sieve
        .contains(usize::MAX, |number, found| {
            there.extend(found.then_some(number))
        })
        .unwrap();
    assert_eq!(there, [7]);
}
