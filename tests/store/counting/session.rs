//! A user of one counting store on a recorded disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everseen::testing::storage::Storage;
use everseen::testing::{Appending, LEAST_BUFFER, Options};
use everseen::{BatchError, Error, Kind, Store};

use super::model::{Batch, Counts, Crash, Mark, Model, Recorder, Tape};
use crate::support::numbers::{Random, key};
use crate::support::recorded::Promises;
use crate::support::unsynced::Unsynced;

/// Why a session ended early.
#[derive(Debug)]
pub enum Stop {
    /// The process was killed, as planned.
    Killed,
    /// A promise was broken.
    Wrong(String),
}

pub type Outcome<T = ()> = Result<T, Stop>;

/// Keys of the store.
const KEYS: u32 = 500;
const CAPACITY: u64 = 2000;

pub struct Session {
    path: PathBuf,
    tape: Option<Arc<Tape>>,
    recorder: Option<Recorder>,
    pub model: Model,
    store: Option<Store>,
    random: Random,
    background: bool,
    /// Nothing has been made or opened yet.
    is_first: bool,
    /// What the first open has found, unless there was nothing.
    pub found: Option<Arc<Counts>>,
}

impl Session {
    pub fn new(folder: &Path, tape: Option<Arc<Tape>>, model: Model, seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            path: folder.join("store"),
            tape,
            recorder: None,
            model,
            store: None,
            background: random.below(3) == 0,
            random,
            is_first: true,
            found: None,
        }
    }

    fn mark(&mut self, mark: Mark) {
        self.model.take(&mark);
        if let Some(tape) = &self.tape {
            tape.mark(&mark);
        }
    }

    fn options(&mut self) -> Options {
        let storage: Arc<dyn Storage> = match &self.tape {
            Some(tape) => {
                let recorder = Recorder::new(tape);
                self.recorder = Some(recorder.clone());
                Arc::new(recorder)
            }
            None => Unsynced::new(),
        };
        Options::new()
            .kind(Kind::Counting)
            .capacity(CAPACITY)
            // No false positive is met in as many look-ups as there ever are here.
            .fpr(1e-10)
            .seed([7; 32])
            .background(self.background)
            .buffer(LEAST_BUFFER)
            .storage(storage)
    }

    fn failed(&self, what: &str, error: &Error) -> Stop {
        match &self.recorder {
            Some(recorder) if recorder.is_dead() => Stop::Killed,
            _ => Stop::Wrong(format!("{what} failed: {error}")),
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("a store is open")
    }

    pub fn create(&mut self) -> Outcome {
        self.is_first = false;
        let store = self.options().create(&self.path);
        self.store = Some(store.map_err(|error| self.failed("create", &error))?);
        self.mark(Mark::Created);
        Ok(())
    }

    /// Opens the store and holds what is in it against what was promised.
    pub fn open(&mut self, crash: Crash) -> Outcome {
        let options = self.options();
        let store = loop {
            match options.open(&self.path) {
                // A thread of the killed process has the lock still.
                Err(Error::Locked { .. }) => std::thread::yield_now(),
                Err(Error::NotFound { .. }) if !self.model.is_made => return self.create(),
                outcome => break outcome.map_err(|error| self.failed("open", &error))?,
            }
        };
        let counts = Arc::new(self.observe(&store)?);
        let checked = self.model.check(&counts, crash);
        checked.map_err(|text| Stop::Wrong(format!("after opening: {text}")))?;
        self.store = Some(store);
        if std::mem::take(&mut self.is_first) {
            self.found = Some(Arc::clone(&counts));
        }
        self.mark(Mark::Opened(counts));
        Ok(())
    }

    /// Looks at what a crash has left as who may only read.
    pub fn look(&self) -> Outcome {
        let wrong = |error: Error| Stop::Wrong(format!("reading what is left: {error}"));
        let store = match Options::new().open_read_only(&self.path) {
            Err(Error::NotFound { .. }) if !self.model.is_made => return Ok(()),
            opened => opened.map_err(wrong)?,
        };
        let report = store.verify().map_err(wrong)?;
        match report.is_ok() {
            true => Ok(()),
            false => Err(Stop::Wrong(format!(
                "reading, damage: {:?}",
                report.damaged
            ))),
        }
    }

    /// What is in the store, by everything that it can be asked.
    fn observe(&self, store: &Store) -> Outcome<Counts> {
        let mut counts = Counts::new();
        for number in 0..KEYS {
            let count = store.count_estimate(key(u64::from(number)).to_le_bytes());
            let count = count.map_err(|error| self.failed("count", &error))?;
            if count > 0 {
                counts.insert(number, count as i64);
            }
        }
        let stats = store
            .stats()
            .map_err(|error| self.failed("stats", &error))?;
        let sum = counts.values().sum::<i64>() as u64;
        if stats.keys != sum {
            return Err(Stop::Wrong(format!(
                "{} keys told, {sum} there",
                stats.keys
            )));
        }
        let report = store
            .verify()
            .map_err(|error| self.failed("verify", &error))?;
        match report.is_ok() {
            true => Ok(counts),
            false => Err(Stop::Wrong(format!("damage: {:?}", report.damaged))),
        }
    }

    /// Counts some keys with one call.
    fn count(&mut self) -> Outcome {
        let now = self.model.now();
        let held: i64 = now.values().sum();
        let up = held == 0 || self.random.below(5) < 3;
        let most = 1 + self.random.below(300);
        let first = self.random.below(u64::from(KEYS)) as u32;
        let mut twin = now.clone();
        let mut asked = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..most {
            // Near each other, so that keys come again.
            let number = (first + self.random.below(200) as u32) % KEYS;
            let count = twin.get(&number).copied().unwrap_or(0);
            if up && (count >= 12 || held + asked.len() as i64 >= CAPACITY as i64) {
                continue;
            }
            asked.push(number);
            expected.push(if up { count == 0 } else { count > 0 });
            if up || count > 0 {
                super::model::count(&mut twin, number, if up { 1 } else { -1 });
            }
        }
        let pairs = || asked.iter().zip(&expected);
        let keys: Vec<_> = pairs()
            .filter(|(_, answer)| up || **answer)
            .map(|(number, _)| *number)
            .collect();
        self.mark(Mark::Begun(Arc::new(Batch { up, keys })));
        let bytes: Vec<_> = asked
            .iter()
            .map(|number| key(u64::from(*number)).to_le_bytes())
            .collect();
        let mut answers = Vec::new();
        let outcome = match up {
            true => BatchError::append(self.store().insert_batch(&bytes), &mut answers),
            false => self.store().remove_into(&bytes, &mut answers),
        };
        outcome.map_err(|error| self.failed("count", &error))?;
        if answers != expected {
            return Err(Stop::Wrong(format!("{up}: {answers:?} for {expected:?}")));
        }
        self.mark(Mark::Done);
        Ok(())
    }

    fn settled(&mut self, what: &str, outcome: everseen::Result<()>) -> Outcome {
        outcome.map_err(|error| self.failed(what, &error))?;
        self.mark(Mark::Settled);
        Ok(())
    }

    /// Does one thing that users do.
    fn step(&mut self) -> Outcome {
        match self.random.below(20) {
            0..=12 => self.count(),
            13..=15 => {
                self.mark(Mark::CommitBegun);
                let committed = self.store().commit();
                committed.map_err(|error| self.failed("commit", &error))?;
                self.mark(Mark::Committed);
                Ok(())
            }
            16..=17 => {
                let outcome = self.store().checkpoint();
                self.settled("checkpoint", outcome)
            }
            18 => {
                let outcome = self.store().close();
                self.settled("close", outcome.map(drop))?;
                self.store = None;
                self.open(Crash::Kill)
            }
            _ => {
                if let Some(tape) = &self.tape {
                    let left = self.random.below(60);
                    tape.burn(left);
                }
                Ok(())
            }
        }
    }

    pub fn steps(&mut self, count: u64) -> Outcome {
        for _ in 0..count {
            let outcome = self.step();
            self.revive(outcome)?;
        }
        Ok(())
    }

    /// Begins again after a kill, which may be met by another.
    pub fn revive(&mut self, mut outcome: Outcome) -> Outcome {
        while let Err(Stop::Killed) = outcome {
            self.kill();
            outcome = self.open(Crash::Kill);
        }
        outcome
    }

    /// A little of everything.
    pub fn script(&mut self) -> Outcome {
        for round in 0..3 {
            self.count()?;
            self.count()?;
            self.mark(Mark::CommitBegun);
            let committed = self.store().commit();
            committed.map_err(|error| self.failed("commit", &error))?;
            self.mark(Mark::Committed);
            self.count()?;
            if round < 2 {
                let outcome = self.store().checkpoint();
                self.settled("checkpoint", outcome)?;
            }
        }
        let outcome = self.store().close();
        self.settled("close", outcome.map(drop))?;
        self.store = None;
        self.open(Crash::Kill)
    }

    /// Counts, closes and opens.
    pub fn go_on(&mut self) -> Outcome {
        self.count()?;
        let outcome = self.store().close();
        self.settled("close", outcome.map(drop))?;
        self.store = None;
        self.open(Crash::Kill)
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        if let Some(recorder) = &self.recorder {
            recorder.kill();
        }
        self.store = None;
    }
}
