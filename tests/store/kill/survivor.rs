//! What is known of a store's contents, and whether what a kill left agrees with it.

use std::path::{Path, PathBuf};

use everseen::Store;
use everseen::testing::Options;

use super::ages::Ages;
use super::task::{MOST_NEW, MOST_WORKERS, Task, Told, key_of, numbers_of};
use crate::support::ages::{BEGIN, steps_of};
use crate::support::unsynced::Unsynced;

/// How far behind the last key to look for keys that must not be there.
const BEYOND: u64 = 4096;

/// Which keys of each worker a store holds: those from `gone` up to `next`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    pub next: [u64; MOST_WORKERS],
    pub gone: [u64; MOST_WORKERS],
}

/// What the store must hold, and what it may.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Keys of each worker that must be there (in a transactional store: that are committed).
    certain: [u64; MOST_WORKERS],
    /// How many of those, from the first on, must not be there any more.
    gone: [u64; MOST_WORKERS],
    /// The number of the last commit.
    sequence: u64,
    /// The keys and removals that it covers.
    covered: (u64, u64),
    /// In which step the certain keys of each worker came, in a store that forgets, and which step it is.
    ages: [Ages; MOST_WORKERS],
    clock: u64,
    /// A commit that may or may not count, and how many keys it covers, and removals.
    committing: Option<(u64, u64)>,
    /// Whether anything can have been inserted since.
    opened: bool,
}

impl Ledger {
    /// That of a store that is yet to be made.
    pub fn begin() -> Self {
        Self {
            clock: BEGIN,
            ..Self::default()
        }
    }

    /// Lets the next child know what the store has.
    pub fn hand_on(&self, task: &mut Task, held: Held) {
        (task.next, task.gone) = (held.next, held.gone);
        (task.clock, task.ages) = (self.clock, self.ages.clone());
    }

    /// Takes in what a child told.
    pub fn note(&mut self, told: Told, transactional: bool) {
        match told {
            Told::Opened => self.opened = true,
            Told::Inserted { worker, next } | Told::Seen { worker, next } => {
                if !transactional {
                    self.certain[worker] = self.certain[worker].max(next);
                    self.ages[worker].add(next, self.clock);
                }
            }
            Told::Removed { worker, gone } => {
                if !transactional {
                    self.gone[worker] = self.gone[worker].max(gone);
                }
            }
            Told::Committing { next, gone } => self.committing = Some((next, gone)),
            Told::Committed { sequence } => {
                self.sequence = self.sequence.max(sequence);
                if let Some(covered) = self.committing.take()
                    && transactional
                {
                    (self.certain[0], self.gone[0]) = covered;
                    self.covered = covered;
                    self.ages[0].add(covered.0, self.clock);
                }
            }
            Told::Passing { step } => self.clock = step,
            Told::Starting | Told::Done | Told::Stopped => {}
        }
    }

    /// Whether the last child came so far as to open the store.
    pub fn opened(&self) -> bool {
        self.opened
    }

    /// Holds an open store against the ledger; answers which keys of each worker are in it.
    fn check(&self, store: &Store, task: &Task) -> Held {
        let commit = store.last_commit("default").unwrap();
        let sequence = commit.as_ref().map_or(0, |commit| commit.sequence);
        assert!(
            sequence >= self.sequence,
            "{sequence} commits, {}",
            self.sequence
        );
        let (mut held, mut gone) = (self.certain, self.gone);
        if task.transactional {
            let tag = numbers_of(commit.as_ref());
            if self.committing == Some(tag) {
                assert!((self.sequence..=self.sequence + 1).contains(&sequence));
            } else {
                assert_eq!((tag, sequence), (self.covered, self.sequence));
            }
            (held[0], gone[0]) = tag;
        }
        // In a plain store the batch that was being changed may be there in part: its first keys.
        let more = if task.transactional || !self.opened {
            0
        } else {
            MOST_NEW
        };
        let workers = held.iter_mut().zip(&mut gone).enumerate();
        for (worker, (held, gone)) in workers.take(task.workers) {
            let indices = 0..*held + BEYOND;
            let hashes: Vec<_> = indices.map(|index| key_of(worker, index)).collect();
            let found = store.contains_batch(&hashes).unwrap();
            let absent = found[..*held as usize].iter().take_while(|found| !**found);
            let absent = absent.count() as u64;
            *gone = self.ages[worker].forgotten(self.clock).max(*gone);
            assert!(
                (*gone..=*gone + more).contains(&absent),
                "{absent} keys of worker {worker} are removed, of {gone}"
            );
            *gone = absent;
            let lost = found[absent as usize..*held as usize]
                .iter()
                .position(|found| !found);
            assert_eq!(
                lost, None,
                "key {lost:?} of worker {worker} is lost, of {held}"
            );
            let beyond = &found[*held as usize..];
            let extra = beyond.iter().take_while(|found| **found).count() as u64;
            assert!(
                extra <= more,
                "{extra} keys that nobody inserted or that were not committed"
            );
            let late = beyond[extra as usize..].iter().position(|found| *found);
            assert_eq!(
                late, None,
                "a later key of the batch without an earlier one, {extra}"
            );
            *held += extra;
        }
        let (told, there) = (
            store.stats().unwrap().keys,
            held.iter().sum::<u64>() - gone.iter().sum::<u64>(),
        );
        // With ages, what went may be counted until runs are merged. A remove whose key was forgotten before the commit counts
        // until the next checkpoint.
        let is_so = told == there || task.forgets && (told > there || task.transactional);
        assert!(is_so, "the count of keys: {told} of {there}");
        Held { next: held, gone }
    }

    /// Holds the ages of what is there against the ledger. What nobody had heard of came last.
    fn check_ages(&self, reader: &Store, task: &Task, held: &Held) {
        if !task.forgets {
            return;
        }
        let (mut keys, mut came) = (Vec::new(), Vec::new());
        for worker in 0..task.workers {
            let mut ages = self.ages[worker].clone();
            ages.add(held.next[worker], self.clock);
            for index in held.gone[worker]..held.next[worker] {
                keys.push(key_of(worker, index));
                came.push((worker, index, ages.of(index)));
            }
        }
        // All in one go: the reader's time goes on, and doesn't come back.
        let found = steps_of(reader, &keys, self.clock);
        for ((worker, index, came), found) in came.into_iter().zip(found) {
            assert_eq!(found, came, "key {index} of worker {worker}");
        }
    }

    /// Looks at what a kill left, all ways there are, and begins anew from there.
    ///
    /// With `keep` the looking happens on a copy, and the next child finds what the kill left.
    pub fn look(&mut self, task: &Task, buffer: u64, keep: bool) -> Held {
        let task = &Task {
            clock: self.clock,
            ..task.clone()
        };
        if !task.path.exists() {
            assert!(!self.opened, "the whole store is gone");
            return Held {
                next: self.certain,
                gone: self.gone,
            };
        }
        let copy = keep.then(|| copy_of(&task.path));
        let path = match &copy {
            Some((_, path)) => path,
            None => &task.path,
        };
        // The most that a log can hold fits into this.
        let reader = task.aged(Options::new().buffer(1 << 20));
        let store = reader.open_read_only(path).unwrap();
        let read = self.check(&store, task);
        self.check_ages(&store, task, &read);
        drop(store);
        let writer = task.options().buffer(buffer).storage(Unsynced::new());
        let store = writer.open(path).unwrap();
        let held = self.check(&store, task);
        assert_eq!(held, read, "a reader and a writer recover different keys");
        let report = store.verify().unwrap();
        assert!(report.is_ok(), "{:?}", report.damaged);
        let sequence = store
            .last_commit("default")
            .unwrap()
            .map_or(0, |commit| commit.sequence);
        store.close().unwrap();
        // Nothing but the store is left, and it is whole.
        let folder = path.parent().unwrap();
        let names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "store")
            .collect();
        assert!(names.is_empty(), "left behind: {names:?}");
        let store = reader.open_read_only(path).unwrap();
        assert_eq!(self.check(&store, task), held, "after closing");
        assert!(store.verify().unwrap().is_ok());
        let covered = match task.transactional {
            true => numbers_of(store.last_commit("default").unwrap().as_ref()),
            false => self.covered,
        };
        self.check_ages(&store, task, &held);
        let mut ages = self.ages.clone();
        for (ages, next) in ages.iter_mut().zip(held.next) {
            ages.add(next, self.clock);
        }
        *self = Self {
            certain: held.next,
            gone: held.gone,
            sequence,
            covered,
            ages,
            clock: self.clock,
            committing: None,
            opened: false,
        };
        held
    }
}

/// Copies a store with its logs into a folder of its own.
pub fn copy_of(path: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let copy = folder.path().join(path.file_name().unwrap());
    (folder, copy)
}
