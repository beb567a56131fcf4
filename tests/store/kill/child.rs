//! The child: works on the store until it is killed, and tells what has returned.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everseen::{Options, Store, storage};

use super::stopping::{Halt, Stopping};
use super::task::{MOST_NEW, MOST_WORKERS, Pipe, Task, Told, VARIABLE, Work, key_of};
use crate::support::numbers::Random;
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
    let options = task.options().storage(match task.stop {
        Some(stop) => Arc::new(Stopping::new(Unsynced::new(), stop, &halt, &pipe)),
        None if task.synced => storage::disk(),
        None => Unsynced::new(),
    });
    pipe.tell(Told::Starting);
    let store = options.open_or_create(&task.path).unwrap();
    pipe.tell(Told::Opened);
    match task.work {
        Work::Random if task.workers > 1 => many(&task, &pipe, &store),
        _ => {
            let mut worker = Worker {
                task: &task,
                pipe: &pipe,
                worker: 0,
                next: task.next[0],
                committed: task.next[0],
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
fn many(task: &Task, pipe: &Pipe, store: &Store) {
    std::thread::scope(|scope| {
        for worker in 0..task.workers {
            scope.spawn(move || {
                let mut worker = Worker {
                    task,
                    pipe,
                    worker,
                    next: task.next[worker],
                    committed: 0,
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
            while self.store.contains_hash(key_of(worker, *next)).unwrap() {
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
    /// In a transactional store, the next key when it was last committed.
    committed: u64,
    random: Random,
}

impl Worker<'_> {
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
        self.insert(store, 350);
        self.commit(store);
        for batch in 0..5 {
            self.insert(store, 650);
            if batch % 2 == 1 {
                self.commit(store);
            }
        }
        self.checkpoint(store);
        self.insert(store, 300);
        self.commit(store);
        self.insert(store, 200);
    }

    fn short(&mut self, store: &Store) {
        self.check_start(store);
        self.insert(store, 20);
        self.commit(store);
        self.insert(store, 20);
        store.close().unwrap();
    }

    fn check_start(&self, store: &Store) {
        if self.task.transactional {
            let tag = store
                .last_commit("default")
                .unwrap()
                .map(|commit| commit.tag);
            let tag = tag.map_or(0, |tag| u64::from_le_bytes(tag.try_into().unwrap()));
            assert_eq!(tag, self.next, "the last commit's tag");
        }
    }

    fn anything(&mut self, store: &Store) {
        match self.random.below(64) {
            0 => self.checkpoint(store),
            1..8 => self.commit(store),
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
        if self.task.transactional && self.next - self.committed + count > store.transaction_quota()
        {
            self.commit(store);
        }
        let mut batch = Vec::new();
        let mut expected = Vec::new();
        for index in self.next..self.next + count {
            if self.next > 0 && self.random.below(16) == 0 {
                batch.push(key_of(self.worker, self.random.below(self.next)));
                expected.push(false);
            }
            batch.push(key_of(self.worker, index));
            expected.push(true);
        }
        let verdicts = match batch.as_slice() {
            [one] => vec![store.insert_hash(*one).unwrap()],
            _ => store.insert_hash_batch(&batch).unwrap(),
        };
        assert!(verdicts == expected, "an old key was new, or a new one old");
        self.next += count;
        self.pipe.tell(Told::Inserted {
            worker: self.worker,
            next: self.next,
        });
    }

    fn commit(&mut self, store: &Store) {
        self.pipe.tell(Told::Committing { next: self.next });
        let sequence = if self.task.transactional {
            store.commit_with(&self.next.to_le_bytes())
        } else {
            store.commit()
        };
        self.committed = self.next;
        let sequence = sequence.unwrap();
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
            self.next = self.committed;
        }
        let store = options.open(&self.task.path).unwrap();
        self.check_start(&store);
        self.pipe.tell(Told::Done);
        store
    }
}
