//! The child: works on the store, tells what it is about to do and what came of it, until it is killed or done.

use everseen::testing::{Appending, Options};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use everseen::testing::storage::{self, Storage};
use everseen::{Error, Kind, Store, Verdict};

use super::hooked::Hooked;
use super::task::{LEAVING, Pipe, Task, Told, VARIABLE, Work, key, keys, passing, writer};
use crate::support::numbers::Random;
use crate::support::segments::Guard;
use crate::support::unsynced::Unsynced;

#[test]
#[ignore = "not a test: what the other tests start again and kill"]
fn work() {
    let Ok(task) = std::env::var(VARIABLE) else {
        return;
    };
    let task = Task::decode(&task);
    // The pipe to the parent takes the place of standard input: the test harness writes to the other two.
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let pipe = Pipe(File::from(pipe));
    let disk: Arc<dyn Storage> = match task.synced {
        true => storage::disk(),
        false => Guard::new(Unsynced::new()),
    };
    let options = task.options().storage(match task.stop {
        Some((counted, stop)) => Hooked::stopping(disk, counted, stop),
        None => disk,
    });
    pipe.tell(&Told::Starting);
    let store = options.open(&task.path).unwrap();
    let mut random = Random::new(task.seed);
    let mut worker = Worker {
        place: random.below(task.keys),
        stride: random.below(task.keys) | 1,
        task: &task,
        pipe: &pipe,
        options: &options,
        store,
        random,
        counter: 0,
        known: HashSet::new(),
        own: HashSet::new(),
        passing: HashMap::new(),
    };
    worker.counter = worker.last_commit();
    pipe.tell(&Told::Opened(worker.counter));
    match task.work {
        Work::Random(count) => worker.at_random(count),
        Work::All => worker.all(),
        Work::Script => worker.script(),
        Work::Hold(count) => worker.hold(count),
    }
    pipe.tell(&Told::Closing);
    worker.store.close().unwrap();
    pipe.tell(&Told::End);
}

struct Worker<'a> {
    task: &'a Task,
    pipe: &'a Pipe,
    options: &'a Options,
    store: Store,
    random: Random,
    /// A walk over all keys.
    place: u64,
    stride: u64,
    /// The number of the writer's last commit.
    counter: u64,
    /// Keys that are there for good, as far as this child was told.
    known: HashSet<u64>,
    /// Keys that this child has claimed and not committed.
    own: HashSet<u64>,
    /// Whether keys that only this child changes are there, as far as it knows.
    passing: HashMap<u64, bool>,
}

impl Worker<'_> {
    fn last_commit(&self) -> u64 {
        let last = self.store.last_commit(&writer(self.task.slot)).unwrap();
        last.map_or(0, |commit| {
            u64::from_le_bytes(commit.tag.try_into().unwrap())
        })
    }

    fn at_random(&mut self, count: u64) {
        for _ in 0..count {
            match self.random.below(64) {
                0..4 => {
                    self.store.checkpoint().unwrap();
                    self.pipe.tell(&Told::Done);
                }
                4..6 => self.reopen(),
                6..12 => self.look(),
                12..20 => {
                    let one = self.some_keys(1);
                    self.claim(one);
                }
                20..26 => self.commit(),
                26..34 if self.task.transactional => self.commit(),
                34..44 if self.task.kind == Kind::Fingerprint => self.pass(),
                _ => {
                    let most = 1 << self.random.below(10);
                    let count = 1 + self.random.below(most).min(599);
                    let batch = self.some_keys(count);
                    self.claim(batch);
                }
            }
        }
    }

    /// Claims every key until none is claimed by somebody else.
    fn all(&mut self) {
        let mut left: Vec<_> = (0..self.task.keys).map(|_| self.walk()).collect();
        let mut again = Vec::new();
        while !left.is_empty() {
            let count = 1 + self.random.below(600);
            let rest = left.split_off(left.len().min(count as usize));
            again.extend(self.claim(left));
            left = rest;
            if self.task.transactional && (self.random.below(2) == 0 || left.is_empty()) {
                self.commit();
            }
            if left.is_empty() {
                left = std::mem::take(&mut again);
            }
        }
    }

    fn script(&mut self) {
        let from = self.task.keys;
        let leaving: Vec<u64> = LEAVING.collect();
        let removes = self.task.kind == Kind::Fingerprint;
        if removes {
            self.change(false, leaving[..130].to_vec());
        }
        self.claim((from..from + 400).collect());
        self.commit();
        if removes {
            self.change(false, leaving[110..160].to_vec());
            self.change(true, leaving[90..120].to_vec());
        }
        // The buffer is full in the midst of these.
        self.claim((from + 400..from + 800).collect());
        self.commit();
        self.claim((from + 800..from + 900).collect());
        self.store.checkpoint().unwrap();
        self.claim((from + 900..from + 950).collect());
    }

    /// Keeps what it claims, until the kill: the pipe is soon full, and then telling blocks.
    fn hold(&mut self, count: u64) {
        self.claim((0..count).collect());
        loop {
            self.pipe.tell(&Told::Done);
        }
    }

    fn walk(&mut self) -> u64 {
        // The number of keys is a power of two, so an odd stride meets each of them.
        self.place = (self.place + self.stride) % self.task.keys;
        self.place
    }

    fn some_keys(&mut self, count: u64) -> Vec<u64> {
        let mut some = Vec::new();
        for _ in 0..count {
            let next = match self.random.below(4) {
                0 => self.random.below(self.task.keys),
                _ => self.walk(),
            };
            some.push(next);
        }
        some
    }

    /// Claims keys; answers those that somebody else holds, or that were refused.
    fn claim(&mut self, numbers: Vec<u64>) -> Vec<u64> {
        self.pipe.tell(&Told::Begin(numbers.clone()));
        let mut verdicts = Vec::new();
        let outcome = match numbers.as_slice() {
            [one] => self
                .store
                .claim(key(*one))
                .map(|verdict| verdicts.push(verdict)),
            _ => self
                .store
                .claim_into(&keys(numbers.iter().copied()), &mut verdicts),
        };
        let letters = verdicts.iter().map(|verdict| match verdict {
            Verdict::New => 'n',
            Verdict::Seen => 's',
            _ => 'p',
        });
        self.pipe.tell(&Told::Answer(letters.collect()));
        let mut again = numbers[verdicts.len()..].to_vec();
        for (number, verdict) in numbers.iter().zip(&verdicts) {
            let had = self.known.contains(number) || self.own.contains(number);
            assert!(
                !had || *verdict == Verdict::Seen,
                "key {number} was there, and is {verdict:?}"
            );
            match verdict {
                Verdict::New if self.task.transactional => {
                    self.own.insert(*number);
                }
                Verdict::New | Verdict::Seen => {
                    if !self.own.contains(number) {
                        self.known.insert(*number);
                    }
                }
                _ => again.push(*number),
            }
        }
        match outcome {
            Ok(()) => {}
            Err(Error::TransactionTooLarge { .. }) => self.commit(),
            Err(error) => panic!("{error}"),
        }
        again
    }

    /// Inserts or removes some of the keys that come and go.
    fn pass(&mut self) {
        let insert = self.random.below(2) == 0;
        let all = passing(self.task.keys, self.task.slot);
        let count = 1 + self.random.below(16);
        let first = all.start + self.random.below(all.end - all.start - count + 1);
        self.change(insert, (first..first + count).collect());
    }

    /// Inserts or removes keys that only this child changes.
    fn change(&mut self, insert: bool, numbers: Vec<u64>) {
        self.pipe.tell(&Told::Changing(insert, numbers.clone()));
        let bytes = keys(numbers.iter().copied());
        let mut changed = Vec::new();
        let outcome = match insert {
            true => {
                let mut verdicts = Vec::new();
                let outcome = self.store.claim_into(&bytes, &mut verdicts);
                assert!(!verdicts.contains(&Verdict::Pending));
                changed.extend(verdicts.iter().map(|verdict| *verdict == Verdict::New));
                outcome
            }
            false => self.store.remove_into(&bytes, &mut changed),
        };
        self.pipe.tell(&Told::Changed(changed.len() as u64));
        for (number, changed) in numbers.into_iter().zip(changed) {
            let before = self.passing.insert(number, insert);
            let right = before.is_none_or(|there| changed == (there != insert));
            assert!(right, "passing key {number}, insert {insert}: {changed}");
        }
        match outcome {
            Ok(()) => {}
            Err(Error::TransactionTooLarge { .. }) => self.commit(),
            Err(error) => panic!("{error}"),
        }
    }

    fn commit(&mut self) {
        self.counter += 1;
        self.pipe.tell(&Told::Committing(self.counter));
        let sequence = self.store.commit_with(&self.counter.to_le_bytes()).unwrap();
        self.pipe.tell(&Told::Committed {
            counter: self.counter,
            sequence,
        });
        self.known.extend(self.own.drain());
    }

    /// What was there once is there.
    fn look(&mut self) {
        let count = 1 + self.random.below(2000) as usize;
        let mut there: Vec<_> = self.known.iter().chain(&self.own).copied().collect();
        there.sort_unstable();
        let from = self.random.below(there.len() as u64 + 1) as usize;
        let some = &there[from..(from + count).min(there.len())];
        let found = self
            .store
            .contains_batch(&keys(some.iter().copied()))
            .unwrap();
        for (number, found) in some.iter().zip(found) {
            assert!(found, "key {number} is gone");
        }
        self.pipe.tell(&Told::Done);
    }

    /// Closes and opens again, which in a transactional store drops what is not committed.
    fn reopen(&mut self) {
        self.pipe.tell(&Told::Closing);
        self.store.close().unwrap();
        self.own.clear();
        if self.task.transactional {
            self.passing.clear();
        }
        self.store = self.options.open(&self.task.path).unwrap();
        let last = self.last_commit();
        assert_eq!(last, self.counter, "the last commit");
        self.pipe.tell(&Told::Opened(last));
    }
}
