//! The child: works on the store, tells what it is about to do and what came of it, and goes on after errors.

use everseen::testing::{Appending, Options};
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;

use everseen::{Error, Kind, Store, Verdict};

use super::task::{ALIAS, Call, Id, NAME, Pipe, SHARED, Task, VARIABLE, Way, What, key};
use crate::support::numbers::Random;

#[test]
#[ignore = "not a test: what the other test starts again"]
fn work() {
    let Ok(task) = std::env::var(VARIABLE) else {
        return;
    };
    let task = Task::decode(&task);
    // The pipe to the parent takes the place of standard input: the test harness writes to the other two.
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut worker = Worker {
        options: task.options(),
        random: Random::new(task.seed),
        pipe: Pipe(File::from(pipe)),
        store: None,
        next: 0,
        held: Vec::new(),
        removed: Vec::new(),
        open: HashSet::new(),
        task,
    };
    if worker.task.reads {
        worker.read();
    } else {
        worker.work();
    }
    worker.pipe.tell(What::End);
}

struct Worker {
    task: Task,
    options: Options,
    random: Random,
    pipe: Pipe,
    store: Option<Store>,
    /// The next key of its own.
    next: u64,
    /// What this handle said is there.
    held: Vec<u64>,
    /// What this handle has removed.
    removed: Vec<u64>,
    /// What it has claimed and not committed, in a transactional store.
    open: HashSet<u64>,
}

/// How often in a row opening may fail.
const ATTEMPTS: u64 = 3;

impl Worker {
    fn path(&mut self) -> PathBuf {
        let home = self.task.root.join("home");
        let path = match self.task.way {
            Way::Alias if self.random.below(3) > 0 => home.join(ALIAS),
            Way::Link => self.task.root.join("links").join(NAME),
            Way::Relative if std::env::set_current_dir(&home).is_ok() => NAME.into(),
            _ => home.join(NAME),
        };
        match path.exists() {
            true => path,
            false if path.is_absolute() => home.join(NAME),
            false => path,
        }
    }

    /// Does something, and tells before and after.
    fn call<T>(
        &mut self,
        call: Call,
        work: impl FnOnce(&Store) -> everseen::Result<T>,
    ) -> Option<T> {
        self.pipe.tell(What::Begins(call));
        let store = self.store.as_ref().unwrap();
        match work(store) {
            Ok(done) => {
                self.pipe.tell(What::Done(call));
                Some(done)
            }
            Err(error) => {
                self.pipe.tell(What::Failed(call, format!("{error:?}")));
                None
            }
        }
    }

    fn open(&mut self) -> bool {
        let path = self.path();
        let before = Id::of(&path);
        let place = path.canonicalize().ok();
        self.pipe.tell(What::Begins(Call::Open));
        let opened = match (self.task.reads, self.task.creates) {
            (true, _) => self.options.open_read_only(&path),
            (false, true) => self.options.open_or_create(&path),
            (false, false) => self.options.open(&path),
        };
        let after = Id::of(&path);
        let same = after.filter(|_| before.is_none() || before == after);
        let now = path.canonicalize().ok();
        let place = now.filter(|now| place.is_none() || place.as_ref() == Some(now));
        if self.task.way == Way::Relative {
            let _ = std::env::set_current_dir(self.task.root.join("links"));
        }
        self.held.clear();
        self.removed.clear();
        self.open.clear();
        match opened {
            Ok(store) => {
                self.store = Some(store);
                let id = same.filter(|_| place.is_some());
                let place = place.map_or(String::new(), |place| place.display().to_string());
                self.pipe.tell(What::Opened(id, place));
                true
            }
            Err(error) => {
                self.pipe
                    .tell(What::Failed(Call::Open, format!("{error:?}")));
                false
            }
        }
    }

    fn close(&mut self) {
        let closed = self.call(Call::Close, Store::close).is_some();
        self.store = None;
        if !closed {
            self.pipe.tell(What::Done(Call::Drop));
        }
    }

    fn work(&mut self) {
        let mut failures = 0;
        for _ in 0..self.task.steps {
            if self.store.is_none() {
                failures += 1;
                if failures > ATTEMPTS {
                    break;
                }
                if self.open() {
                    failures = 0;
                }
                continue;
            }
            let went_well = match self.random.below(32) {
                0..3 => self.call(Call::Checkpoint, Store::checkpoint).is_some(),
                3..10 => self.commit(),
                10 | 11 => {
                    self.close();
                    true
                }
                12..16 => self.look(),
                16..19 if self.task.kind == Kind::Fingerprint => self.remove(),
                16..19 => self.insert(1),
                _ => {
                    let most = 1 << self.random.below(9);
                    let count = 1 + self.random.below(most);
                    self.insert(count)
                }
            };
            // After an error a careful program opens the store anew, and a careless one goes on.
            if !went_well && self.store.is_some() && self.random.below(4) > 0 {
                self.close();
            }
        }
        if self.store.is_some() {
            self.close();
        }
    }

    fn commit(&mut self) -> bool {
        let done = self.call(Call::Commit, Store::commit).is_some();
        if done {
            self.open.clear();
        }
        done
    }

    fn insert(&mut self, count: u64) -> bool {
        let shared = self.random.below(2) == 0;
        let mut numbers = Vec::new();
        for _ in 0..count {
            self.next += 1;
            numbers.push(match shared {
                true => self.random.below(SHARED),
                false => self.task.own_key(self.next),
            });
        }
        self.pipe.tell(What::Begins(Call::Insert));
        let store = self.store.as_ref().unwrap();
        let mut verdicts = Vec::new();
        let outcome = match &numbers[..] {
            [one] => store.claim(key(*one)).map(|verdict| verdicts.push(verdict)),
            many => {
                let keys: Vec<_> = many.iter().map(|number| key(*number)).collect();
                store.claim_into(&keys, &mut verdicts)
            }
        };
        let (mut new, mut seen) = (Vec::new(), Vec::new());
        for (number, verdict) in numbers.into_iter().zip(verdicts) {
            match verdict {
                Verdict::New => {
                    new.push(number);
                    if self.task.transactional {
                        self.open.insert(number);
                    }
                }
                // Its own that is not committed is told as new alone.
                Verdict::Seen if !self.open.contains(&number) => seen.push(number),
                _ => {}
            }
        }
        self.held.extend(new.iter().chain(&seen));
        self.pipe.tell(What::Answer(new, seen));
        match outcome {
            Ok(()) => {
                self.pipe.tell(What::Done(Call::Insert));
                true
            }
            Err(Error::TransactionTooLarge { .. }) => self.commit(),
            Err(error) => {
                let error = format!("{error:?}");
                self.pipe.tell(What::Failed(Call::Insert, error));
                false
            }
        }
    }

    /// What this handle had acknowledged is there, as long as it answers.
    fn look(&mut self) -> bool {
        let held = self.held.clone();
        let keys: Vec<_> = held.iter().map(|number| key(*number)).collect();
        let found = self.call(Call::Look, |store| store.contains_batch(&keys));
        let Some(found) = found else {
            return false;
        };
        for (number, found) in held.iter().zip(found) {
            if !found {
                self.pipe.tell(What::Gone(*number));
            }
        }
        let removed = self.removed.clone();
        let keys: Vec<_> = removed.iter().map(|number| key(*number)).collect();
        let found = self.call(Call::Look, |store| store.contains_batch(&keys));
        let Some(found) = found else {
            return false;
        };
        for (number, found) in removed.iter().zip(found) {
            if found {
                self.pipe.tell(What::Back(*number));
            }
        }
        true
    }

    /// Removes some of its own keys, which it never inserts again, and no other worker knows.
    fn remove(&mut self) -> bool {
        let own = self.task.own_key(0);
        let first = self.random.below(self.held.len() as u64 + 1) as usize;
        let mut own: Vec<_> = self.held[first..]
            .iter()
            .filter(|one| **one > own)
            .collect();
        own.truncate(1 << self.random.below(7));
        let numbers: Vec<u64> = own.into_iter().copied().collect();
        if numbers.is_empty() {
            return true;
        }
        self.held.retain(|one| !numbers.contains(one));
        self.open.retain(|one| !numbers.contains(one));
        self.pipe.tell(What::Removes(numbers.clone()));
        let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
        self.pipe.tell(What::Begins(Call::Remove));
        let mut done = Vec::new();
        match self.store.as_ref().unwrap().remove_into(&keys, &mut done) {
            Ok(()) => self.pipe.tell(What::Done(Call::Remove)),
            // Which of them are removed is not followed.
            Err(Error::TransactionTooLarge { .. }) => return self.commit(),
            Err(error) => {
                let error = format!("{error:?}");
                self.pipe.tell(What::Failed(Call::Remove, error));
                return false;
            }
        }
        for (number, was_there) in numbers.iter().zip(done) {
            if !was_there {
                self.pipe.tell(What::Gone(*number));
            }
        }
        self.removed.extend(numbers);
        true
    }

    fn read(&mut self) {
        for _ in 0..self.task.steps {
            if !self.open() {
                continue;
            }
            if let Some(report) = self.call(Call::Verify, Store::verify)
                && !report.is_ok()
            {
                self.pipe
                    .tell(What::Damaged(format!("{:?}", report.damaged)));
            }
            self.close();
        }
    }
}
