//! The child that works while the memory is spoiled.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use everseen::testing::Options;
use everseen::{Error, Kind, Store};

use super::Trial;
use super::ledger::Ledger;
use super::spoil::spoil;
use crate::support::numbers::{Random, key};

const STEPS: u64 = 40;

struct Handle {
    store: Store,
    /// Claimed, and not committed.
    pending: Vec<u64>,
}

struct Worker<'a> {
    trial: &'a Trial,
    path: &'a Path,
    random: Random,
    handles: Vec<Handle>,
    ledger: Ledger,
    next: u64,
}

pub fn work(trial: &Trial, path: &Path) {
    let store = trial.options().create(path).unwrap();
    let mut worker = Worker {
        trial,
        path,
        random: Random::new(trial.seed ^ 1),
        handles: vec![Handle {
            store,
            pending: Vec::new(),
        }],
        ledger: Ledger::default(),
        next: 0,
    };
    while worker.handles.len() < trial.handles {
        worker.join();
    }
    for _ in 0..6 {
        worker.step();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if trial.meanwhile {
            let mut random = Random::new(trial.seed ^ 2);
            scope.spawn({
                let over = &over;
                move || {
                    while !over.load(Ordering::Relaxed) {
                        (0..random.below(200_000)).for_each(|_| std::hint::spin_loop());
                        tell(spoil(&mut random, path));
                    }
                }
            });
        }
        for _ in 0..STEPS {
            if !trial.meanwhile && worker.random.below(4) == 0 {
                for _ in 0..1 + worker.random.below(3) {
                    tell(spoil(&mut worker.random, path));
                }
            }
            worker.step();
        }
        over.store(true, Ordering::Relaxed);
    });
    worker.end();
}

fn tell(spoilt: Option<String>) {
    if let Some(spoilt) = spoilt {
        eprintln!("{spoilt}");
    }
}

/// What was done, unless there was an error, which may be any.
fn told<T>(what: &str, outcome: everseen::Result<T>) -> Option<T> {
    let error = match outcome {
        Ok(done) => return Some(done),
        Err(Error::Poisoned { cause }) => format!("poisoned: {cause}"),
        Err(error) => error.to_string(),
    };
    let shown: String = error.chars().take(150).collect();
    eprintln!("{what}: {shown}");
    None
}

impl Worker<'_> {
    fn join(&mut self) {
        if let Some(store) = told("open", self.trial.options().open(self.path)) {
            self.handles.push(Handle {
                store,
                pending: Vec::new(),
            });
        }
    }

    /// Closes all handles and opens them again, as who meets an error does.
    fn anew(&mut self) {
        for handle in self.handles.drain(..) {
            told("close", handle.store.close());
        }
        (0..self.trial.handles).for_each(|_| self.join());
    }

    fn step(&mut self) {
        let failed = |handle: &Handle| matches!(handle.store.stats(), Err(Error::Poisoned { .. }));
        if self.handles.iter().any(failed) && self.random.below(3) == 0 {
            return self.anew();
        }
        let count = self.handles.len().max(1) as u64;
        let at = self.random.below(count) as usize;
        match self.random.below(20) {
            _ if at >= self.handles.len() => self.join(),
            0..=9 => self.insert(at),
            10..=12 => self.commit(at),
            13 => self.checkpoint(at),
            14 => self.remove(at),
            15..=16 => self.look(at),
            17 => self.read(),
            18 if self.random.below(2) == 0 => self.anew(),
            18 => {
                told("stats", self.handles[at].store.stats());
                told("verify", self.handles[at].store.verify());
            }
            _ => {
                told("close", self.handles[at].store.close());
                // What it had not committed is dropped.
                self.handles.remove(at);
                self.join();
            }
        }
    }

    fn insert(&mut self, at: usize) {
        let most = [1, 20, 600][self.random.below(3) as usize];
        let count = 1 + self.random.below(most);
        let numbers: Vec<_> = (0..count)
            .map(|_| match self.random.below(5) {
                0 => self.random.below(self.next + 1),
                _ => {
                    self.next += 1;
                    self.next
                }
            })
            .collect();
        let hashes: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
        let handle = &mut self.handles[at];
        let outcome = match &hashes[..] {
            [one] => handle.store.insert(*one).map(|new| vec![new]),
            _ => handle.store.insert_batch(&hashes).map_err(Error::from),
        };
        let counts = self.trial.kind == Kind::Counting;
        let Some(new) = told("insert", outcome) else {
            numbers
                .iter()
                .for_each(|number| self.ledger.perhaps(*number, 1));
            return;
        };
        assert_eq!(new.len(), numbers.len());
        eprintln!(
            "handle {at}: inserted {} keys up to {}",
            numbers.len(),
            self.next
        );
        for (number, new) in numbers.into_iter().zip(new) {
            if counts {
                self.ledger.add(number, 1);
            } else if new && self.trial.transactional {
                handle.pending.push(number);
            } else if new {
                self.ledger.add(number, 1);
            }
        }
    }

    fn commit(&mut self, at: usize) {
        let handle = &mut self.handles[at];
        let tag = vec![7; self.random.below(40) as usize];
        let committed = told("commit", handle.store.commit_with(&tag)).is_some();
        if committed {
            let pending = &handle.pending;
            eprintln!(
                "handle {at}: committed {:?} to {:?}",
                pending.first(),
                pending.last()
            );
        }
        for number in handle.pending.drain(..) {
            if committed {
                self.ledger.add(number, 1);
            }
        }
    }

    fn checkpoint(&mut self, at: usize) {
        told("checkpoint", self.handles[at].store.checkpoint());
    }

    /// Takes out what is there for certain.
    fn remove(&mut self, at: usize) {
        let removes = match self.trial.kind {
            Kind::Counting => true,
            Kind::Fingerprint => !self.trial.transactional,
            _ => false,
        };
        if !removes {
            return;
        }
        let number = self.random.below(self.next + 1);
        if self.ledger.least(number) < 1 {
            return;
        }
        match told("remove", self.handles[at].store.remove(key(number))) {
            Some(true) => self.ledger.add(number, -1),
            Some(false) => {}
            None => self.ledger.perhaps(number, -1),
        }
    }

    fn some(&mut self) -> Vec<u64> {
        let count = 1 + self.random.below(600);
        (0..count)
            .map(|_| key(self.random.below(self.next + 10)))
            .collect()
    }

    fn look(&mut self, at: usize) {
        let some = self.some();
        let store = &self.handles[at].store;
        told("contains", store.contains(some[0]));
        told("contains", store.contains_batch(&some));
        told("last commit", store.last_commit("main"));
        if self.trial.kind == Kind::Counting {
            told("count", store.count_estimate(some[0]));
        }
    }

    /// Another that only reads.
    fn read(&mut self) {
        let some = self.some();
        let options = Options::new().storage(super::Unsynced::new());
        let options = options.timeout(std::time::Duration::from_millis(300));
        if let Some(reader) = told("read", options.open_read_only(self.path)) {
            told("contains", reader.contains_batch(&some));
            told("contains", reader.contains(some[0]));
            told("stats", reader.stats());
        }
    }

    fn end(mut self) {
        if !self.trial.dies {
            for handle in self.handles.drain(..) {
                told("close", handle.store.close());
            }
        }
        self.ledger.save(self.path);
        if self.trial.dies {
            std::process::exit(0);
        }
    }
}
