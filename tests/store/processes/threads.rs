//! One handle, many threads, and a close in their midst.

use everseen::testing::Appending;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use everseen::{Error, Kind, Store, Verdict};

use super::parent::{CLOSED, names};
use super::task::{Task, keys};
use crate::support::numbers::Random;
use crate::support::patience::wait_until;
use crate::support::share::all_some_or;
use crate::support::unsynced::Unsynced;

const THREADS: u64 = 12;
const KEYS: u64 = 1 << 13;

/// One thread's own knowledge.
struct Thread<'a> {
    store: &'a Store,
    transactional: bool,
    random: Random,
    /// Keys that it won and, in a transactional store, has not seen committed.
    own: Vec<u64>,
    /// Keys that must be there for good.
    certain: Vec<u64>,
    /// Keys that it won.
    won: Vec<u64>,
}

impl Thread<'_> {
    /// Goes on until the handle is closed.
    fn run(mut self, done: &AtomicU64) -> Self {
        loop {
            let step = match self.random.below(8) {
                0 => self.commit(),
                1 | 2 => self.look(),
                _ => self.claim(),
            };
            if let ControlFlow::Break(error) = step {
                assert!(matches!(error, Error::Closed), "{error}");
                return self;
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn claim(&mut self) -> ControlFlow<Error> {
        let count = 1 + self.random.below(60);
        let numbers: Vec<_> = (0..count).map(|_| self.random.below(KEYS)).collect();
        let mut verdicts = Vec::new();
        let outcome = self
            .store
            .claim_into(&keys(numbers.iter().copied()), &mut verdicts);
        for (number, verdict) in numbers.iter().zip(verdicts) {
            if verdict == Verdict::New {
                self.own.push(*number);
                self.won.push(*number);
            }
        }
        if !self.transactional {
            self.certain.append(&mut self.own);
        }
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(Error::TransactionTooLarge { .. }) => self.commit(),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn commit(&mut self) -> ControlFlow<Error> {
        match self.store.commit() {
            Ok(_) => {
                self.certain.append(&mut self.own);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn look(&mut self) -> ControlFlow<Error> {
        match self
            .store
            .contains_batch(&keys(self.certain.iter().copied()))
        {
            Ok(found) => {
                let lost = found.iter().position(|found| !found);
                assert_eq!(lost, None);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// A round: threads work on a handle, it is closed, and what they know is held against the store.
fn round(kind: Kind, transactional: bool, with_other: bool, path: &Path, random: &mut Random) {
    let task = Task {
        background: random.below(2) == 0,
        ..Task::new(kind, transactional, KEYS, path)
    };
    let options = task.options().storage(Unsynced::new());
    let store = options.create(path).unwrap();
    let other = with_other.then(|| options.clone().writer("other").open(path).unwrap());
    let done = AtomicU64::new(0);
    let barrier = Barrier::new(THREADS as usize + 1);
    let goal = 1 + random.below(400);
    let threads: Vec<Thread<'_>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS)
            .map(|_| {
                let thread = Thread {
                    store: &store,
                    transactional,
                    random: Random::new(random.next()),
                    own: Vec::new(),
                    certain: Vec::new(),
                    won: Vec::new(),
                };
                let (done, barrier) = (&done, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    thread.run(done)
                })
            })
            .collect();
        barrier.wait();
        wait_until("keys are done", || done.load(Ordering::Relaxed) >= goal);
        store.close().unwrap();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut certain: Vec<_> = threads
        .iter()
        .flat_map(|one| one.certain.iter().copied())
        .collect();
    let mut won: Vec<_> = threads
        .iter()
        .flat_map(|one| one.won.iter().copied())
        .collect();
    won.sort_unstable();
    assert!(
        won.windows(2).all(|pair| pair[0] != pair[1]),
        "a key was won twice"
    );
    certain.sort_unstable();
    let check = |store: &Store| {
        let found = store
            .contains_batch(&keys(certain.iter().copied()))
            .unwrap();
        let lost = found.iter().position(|found| !found);
        assert_eq!(lost, None);
    };
    if let Some(other) = other {
        check(&other);
        // What the closed one did not commit is free again.
        let mut new = 0;
        for from in (0..KEYS).step_by(512) {
            let mut verdicts = Vec::new();
            let batch = keys(from..from + 512);
            other.claim_into(&batch, &mut verdicts).unwrap();
            assert!(verdicts.iter().all(|verdict| *verdict != Verdict::Pending));
            new += verdicts
                .iter()
                .filter(|verdict| **verdict == Verdict::New)
                .count();
            other.commit().unwrap();
        }
        assert!(new <= KEYS as usize - certain.len());
        assert_eq!(other.stats().unwrap().keys, KEYS);
        other.close().unwrap();
    }
    assert_eq!(names(path), CLOSED);
    let store = options.open(path).unwrap();
    check(&store);
    let keys = store.stats().unwrap().keys;
    assert!(!with_other || keys == KEYS);
    assert!(keys >= certain.len() as u64);
    if !transactional {
        assert!(with_other || keys == certain.len() as u64);
    }
    assert!(store.verify().unwrap().is_ok());
}

fn rounds(transactional: bool, with_other: bool) {
    let mut random = Random::new(u64::from(transactional) * 2 + u64::from(with_other));
    for number in 0..all_some_or(60, 24, 8) {
        println!("transactional {transactional}, another handle {with_other}, round {number}");
        let kind = [Kind::Bloom, Kind::Scalable, Kind::Fingerprint][number % 3];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        round(kind, transactional, with_other, &path, &mut random);
    }
}

#[test]
fn a_close_among_threads() {
    rounds(false, false);
    rounds(true, false);
}

#[test]
fn a_close_among_threads_beside_another_handle() {
    rounds(false, true);
    rounds(true, true);
}
