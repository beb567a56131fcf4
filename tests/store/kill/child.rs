//! The child: works on the store until it is killed, and tells what has returned.

use everseen::testing::{Appending, Options};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

use everseen::hash::HashedKey;
use everseen::testing::storage;
use everseen::{Kind, Store};

use super::ages::Ages;
use super::stopping::{Halt, Stopping};
use super::task::{
    MOST_NEW, MOST_WORKERS, Pipe, Task, Told, VARIABLE, Work, key_of, numbers_of, tag,
};
use crate::support::ages::within;
use crate::support::numbers::Random;
use crate::support::segments::Guard;
use crate::support::unsynced::Unsynced;

#[test]
#[ignore = "not a test: what the other tests start again and kill"]
fn work() {
    let Ok(task) = std::env::var(VARIABLE) else {
        return;
    };
    // A thread that fails ends the process, so that the parent learns of it before it kills.
    std::panic::set_hook(Box::new(|failure| {
        eprintln!("{failure}");
        std::process::exit(101);
    }));
    let task = Task::decode(&task);
    // The pipe to the parent takes the place of standard input: the test harness writes to the other two.
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let pipe = Arc::new(Pipe::new(File::from(pipe)));
    let halt = Arc::new(Halt::default());
    let clock = RwLock::new(task.clock);
    let options = task.options().storage(match task.stop {
        Some(stop) => {
            let disk = Guard::new(Unsynced::new());
            Arc::new(Stopping::new(disk, stop, &halt, &pipe))
        }
        None if task.synced => storage::disk(),
        None => Guard::new(Unsynced::new()),
    });
    pipe.tell(Told::Starting);
    let store = options.open_or_create(&task.path).unwrap();
    pipe.tell(Told::Opened);
    match task.work {
        Work::Random if task.workers > 1 => many(&task, &pipe, &store, &clock),
        _ => {
            let mut worker = Worker {
                task: &task,
                pipe: &pipe,
                worker: 0,
                next: task.next[0],
                gone: task.gone[0],
                committed: (task.next[0], task.gone[0]),
                ages: task.ages[0].clone(),
                clock: &clock,
                random: Random::new(task.seed),
            };
            match task.work {
                Work::Random => worker.at_random(store, &options),
                Work::Script => worker.script(store, &options, &halt),
                Work::Short => worker.short(&store),
            }
        }
    }
}

/// Several threads that insert, and one that looks.
fn many(task: &Task, pipe: &Pipe, store: &Store, clock: &RwLock<u64>) {
    std::thread::scope(|scope| {
        for worker in 0..task.workers {
            scope.spawn(move || {
                let mut worker = Worker {
                    task,
                    pipe,
                    worker,
                    next: task.next[worker],
                    gone: task.gone[worker],
                    committed: (0, 0),
                    ages: task.ages[worker].clone(),
                    clock,
                    random: Random::new(task.seed ^ worker as u64),
                };
                loop {
                    worker.anything(store);
                }
            });
        }
        let mut watcher = Watcher::new(task, pipe, store);
        loop {
            watcher.look();
        }
    });
}

/// Looks for the next key of each worker, whose insert may not have returned yet. Once seen, a key stays.
struct Watcher<'a> {
    task: &'a Task,
    pipe: &'a Pipe,
    store: &'a Store,
    next: [u64; MOST_WORKERS],
}

impl<'a> Watcher<'a> {
    fn new(task: &'a Task, pipe: &'a Pipe, store: &'a Store) -> Self {
        Self {
            task,
            pipe,
            store,
            next: task.next,
        }
    }

    fn look(&mut self) {
        for (worker, next) in self.next.iter_mut().enumerate().take(self.task.workers) {
            let mut more = false;
            while self.store.contains(key_of(worker, *next)).unwrap() {
                *next += 1;
                more = true;
            }
            if more {
                self.pipe.tell(Told::Seen {
                    worker,
                    next: *next,
                });
            }
        }
    }

    /// Looks until the work is over, or has come to where it was to stop: then once more, and waits for the kill.
    fn look_until(&mut self, over: &AtomicBool, halt: &Halt) {
        halt.watch(true);
        while !over.load(Ordering::Acquire) {
            let stopped = halt.is_stopped();
            self.look();
            if stopped {
                self.pipe.tell_forever(Told::Stopped);
            }
            std::thread::yield_now();
        }
        halt.watch(false);
    }
}

struct Worker<'a> {
    task: &'a Task,
    pipe: &'a Pipe,
    worker: usize,
    /// The next key.
    next: u64,
    /// The first key that is not removed.
    gone: u64,
    /// In a transactional store, the same two when they were last committed.
    committed: (u64, u64),
    /// In which step each key came, in a store that forgets; in a transactional one, of those that are committed.
    ages: Ages,
    /// Which step it is. It does not end while a key comes.
    clock: &'a RwLock<u64>,
    random: Random,
}

impl<'a> Worker<'a> {
    fn at_random(&mut self, mut store: Store, options: &Options) {
        self.check_start(&store);
        loop {
            if self.random.below(100) == 0 {
                store = self.reopen(store, options);
            } else {
                self.anything(&store);
            }
        }
    }

    fn script(&mut self, store: Store, options: &Options, halt: &Halt) {
        self.check_start(&store);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut watcher = Watcher::new(self.task, self.pipe, &store);
            let over = &over;
            scope.spawn(move || watcher.look_until(over, halt));
            self.much(&store);
            over.store(true, Ordering::Release);
        });
        let store = self.reopen(store, options);
        self.insert(&store, 1);
        self.insert(&store, 100);
        self.commit(&store);
        store.close().unwrap();
    }

    fn much(&mut self, store: &Store) {
        self.insert(store, 350);
        self.pass(store, 1);
        self.insert(store, 350);
        self.commit(store);
        for batch in 0..5 {
            self.insert(store, 650);
            self.pass(store, 2);
            if batch % 2 == 1 {
                self.commit(store);
            }
        }
        self.remove(store, 500);
        self.commit(store);
        self.remove(store, 150);
        // The first keys that are left are forgotten then.
        self.pass(store, 8);
        self.checkpoint(store);
        self.remove(store, 100);
        self.insert(store, 300);
        self.commit(store);
        self.insert(store, 200);
    }

    fn short(&mut self, store: &Store) {
        self.check_start(store);
        self.insert(store, 20);
        self.pass(store, 2);
        self.commit(store);
        self.insert(store, 20);
        store.close().unwrap();
    }

    fn check_start(&self, store: &Store) {
        if self.task.transactional {
            let last = store.last_commit("default").unwrap();
            let (next, gone) = numbers_of(last.as_ref());
            assert_eq!(next, self.next, "the last commit's tag");
            let is_so = gone == self.gone || self.task.forgets && gone < self.gone;
            assert!(is_so, "the last commit's tag: {gone} of {}", self.gone);
        }
    }

    /// Steps pass, and keys are forgotten, in a store that forgets.
    fn pass(&self, store: &Store, steps: u64) {
        if self.task.forgets {
            let mut clock = self.clock.write().unwrap();
            *clock += steps;
            self.pipe.tell(Told::Passing { step: *clock });
            store.advance_to(within(*clock)).unwrap();
        }
    }

    /// Begins to change something, and takes note of what is forgotten. The step lasts for as long as that is held.
    fn begin(&mut self) -> RwLockReadGuard<'a, u64> {
        let now = self.clock.read().unwrap();
        self.gone = self.ages.forgotten(*now).max(self.gone);
        now
    }

    fn anything(&mut self, store: &Store) {
        if self.task.forgets && self.random.below(12) == 0 {
            // Now and then a window.
            let most = [2, 20][usize::from(self.random.below(16) == 0)];
            let steps = 1 + self.random.below(most);
            self.pass(store, steps);
        }
        match self.random.below(64) {
            0 => self.checkpoint(store),
            1..8 => self.commit(store),
            8..13 if self.task.kind == Kind::Fingerprint => {
                // At times so many that segments merge.
                let most = match self.random.below(5) {
                    0 => 1 << 13,
                    _ => 1 << self.random.below(10),
                };
                let count = 1 + self.random.below(most);
                self.remove(store, count);
            }
            _ => {
                let most = 1 << self.random.below(10);
                let count = 1 + self.random.below(most);
                self.insert(store, count);
            }
        }
    }

    /// Inserts a batch of new keys with a few old ones among them, as far as there is room.
    fn insert(&mut self, store: &Store, count: u64) {
        let limit = self.task.limit() / self.task.workers as u64;
        let count = count.min(MOST_NEW).min(limit.saturating_sub(self.next));
        self.spare_quota(store, count);
        let now = self.begin();
        let mut batch = Vec::new();
        let mut expected = Vec::new();
        for index in self.next..self.next + count {
            if self.next > self.gone && self.random.below(16) == 0 {
                let old = self.gone + self.random.below(self.next - self.gone);
                batch.push(key_of(self.worker, old));
                expected.push(false);
            }
            batch.push(key_of(self.worker, index));
            expected.push(true);
        }
        let verdicts = match batch.as_slice() {
            [one] => vec![store.insert(*one).unwrap()],
            _ => store.insert_batch(&batch).unwrap(),
        };
        assert!(verdicts == expected, "an old key was new, or a new one old");
        self.next += count;
        if !self.task.transactional {
            self.ages.add(self.next, *now);
        }
        self.pipe.tell(Told::Inserted {
            worker: self.worker,
            next: self.next,
        });
    }

    /// Commits if the transaction has no room for so many changes.
    fn spare_quota(&mut self, store: &Store, count: u64) {
        let changed = self.next - self.committed.0 + self.gone - self.committed.1;
        if self.task.transactional && changed + count > store.uncommitted().unwrap().most {
            self.commit(store);
        }
    }

    /// Removes the oldest keys, where the kind can.
    fn remove(&mut self, store: &Store, count: u64) {
        if self.task.kind != Kind::Fingerprint {
            return;
        }
        let mut rest = count.min(self.next - self.gone);
        while rest > 0 {
            self.spare_quota(store, MOST_NEW.min(rest));
            let _now = self.begin();
            // Some may be forgotten by now.
            let some = MOST_NEW.min(rest).min(self.next - self.gone);
            if some == 0 {
                break;
            }
            let batch: Vec<_> = (self.gone..self.gone + some)
                .map(|index| store.hasher().mix(key_of(self.worker, index)))
                .map(HashedKey::from_bits)
                .collect();
            let mut removed = Vec::new();
            store.remove_into(&batch, &mut removed).unwrap();
            assert!(removed.iter().all(|removed| *removed), "a key was gone");
            self.gone += some;
            rest -= some;
            self.pipe.tell(Told::Removed {
                worker: self.worker,
                gone: self.gone,
            });
        }
    }

    fn commit(&mut self, store: &Store) {
        let now = self.begin();
        let (next, gone) = (self.next, self.gone);
        self.pipe.tell(Told::Committing { next, gone });
        let sequence = if self.task.transactional {
            store.commit_with(&tag(next, gone))
        } else {
            store.commit()
        };
        self.committed = (next, gone);
        let sequence = sequence.unwrap();
        if self.task.transactional {
            self.ages.add(next, *now);
        }
        self.pipe.tell(Told::Committed { sequence });
    }

    fn checkpoint(&mut self, store: &Store) {
        store.checkpoint().unwrap();
        self.pipe.tell(Told::Done);
    }

    /// Closes and opens again, which in a transactional store drops what is not committed.
    fn reopen(&mut self, store: Store, options: &Options) -> Store {
        store.close().unwrap();
        drop(store);
        if self.task.transactional {
            (self.next, self.gone) = self.committed;
        }
        let now = *self.begin();
        let options = match self.task.forgets {
            true => options.clone().clock(within(now)),
            false => options.clone(),
        };
        let store = options.open(&self.task.path).unwrap();
        self.check_start(&store);
        self.pipe.tell(Told::Done);
        store
    }
}
