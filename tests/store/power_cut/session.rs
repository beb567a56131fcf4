//! A user of one store, with a model of what was promised to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everseen::testing::storage::Storage;
use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Kind, Store};

use super::model::{Birth, Contents, Crash, Mark, Model, Recorder, Tape};
use super::setup::Setup;
use crate::support::ages::{WINDOW, within};
use crate::support::forge::SUPERBLOCKS;
use crate::support::numbers::{self, Random};
use crate::support::recorded::Promises;
use crate::support::recorded::disk::names_in;
use crate::support::segments::Guard;
use crate::support::unsynced::Unsynced;

/// The store's name in its folder.
pub const NAME: &str = "store";
/// No false positive is met in as many look-ups as there ever are here.
const FPR: f64 = 1e-12;
/// Numbers of keys that are never inserted.
const NEVER: std::ops::Range<u64> = 1 << 40..(1 << 40) + 64;
/// How often to look whether the threads of a killed process have let go of the store.
const PATIENCE: u32 = 10_000_000;

/// Why a session ended early.
#[derive(Debug)]
pub enum Stop {
    /// The process was killed, as planned.
    Killed,
    /// A promise was broken.
    Wrong(String),
}

pub type Outcome<T = ()> = Result<T, Stop>;

pub fn wrong<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Stop::Wrong(text.into()))
}

pub struct Session<'a> {
    pub(super) setup: &'a Setup,
    path: PathBuf,
    pub(super) tape: Option<Arc<Tape>>,
    recorder: Option<Recorder>,
    pub model: Model,
    store: Option<Arc<Store>>,
    /// Another handle. It inserts while the first one commits, and goes on if that one fails.
    pub(super) other: Option<(Arc<Store>, Recorder)>,
    pub(super) random: Random,
    /// Handles opened so far: each commits under the other name than the one before it.
    handles: u64,
    first_handle: u64,
    pub(super) uncommitted: u64,
    /// What the first open has found, unless there was nothing.
    pub found: Option<Arc<Contents>>,
}

impl<'a> Session<'a> {
    pub fn new(
        setup: &'a Setup,
        folder: &Path,
        tape: Option<Arc<Tape>>,
        model: Model,
        seed: u64,
    ) -> Self {
        Self {
            setup,
            path: folder.join(NAME),
            tape,
            recorder: None,
            model,
            store: None,
            other: None,
            random: Random::new(seed),
            handles: seed % 2,
            first_handle: seed % 2,
            uncommitted: 0,
            found: None,
        }
    }

    pub(super) fn mark(&mut self, mark: Mark) {
        self.model.take(&mark);
        if let Some(tape) = &self.tape {
            tape.mark(&mark);
        }
    }

    pub(super) fn writer(&self) -> &'static str {
        ["even", "odd"][(self.handles % 2) as usize]
    }

    /// Options of a process that begins.
    fn options(&mut self) -> Options {
        self.handles += 1;
        let storage: Arc<dyn Storage> = match &self.tape {
            Some(tape) => {
                let recorder = Recorder::new(tape);
                self.recorder = Some(recorder.clone());
                Arc::new(recorder)
            }
            None => Unsynced::new(),
        };
        self.options_of(self.writer(), storage)
    }

    fn options_of(&mut self, writer: &str, storage: Arc<dyn Storage>) -> Options {
        // Some recover with a smaller buffer than the one that filled the log, and some have buffers that grow.
        let options = match self.random.below(4) {
            0 | 1 => Options::new().buffer(LEAST_BUFFER),
            2 => Options::new().buffer(self.setup.buffer),
            _ => Options::new().buffer_between(LEAST_BUFFER, 32 * LEAST_BUFFER),
        };
        let options = match self.model.ages.clock {
            Some((now, by)) => options
                .forget_after(WINDOW)
                .forget_by(by)
                .clock(within(now)),
            None => options,
        };
        options
            .kind(self.setup.kind)
            .transactional(self.setup.transactional)
            .capacity(self.setup.capacity)
            .fpr(FPR)
            .seed([7; 32])
            .segment_pages(2)
            .step_segments(2)
            .least_run(self.setup.least_run)
            .least_at_once(self.setup.least_run / 16)
            .filtered_from(if self.setup.background { 0 } else { u64::MAX })
            .background(self.setup.background)
            .writer(writer)
            .storage(Guard::telling(storage, &self.setup.seen))
    }

    /// Opens another handle in the same process.
    pub(super) fn join(&mut self) -> Outcome {
        let Some(recorder) = self.recorder.clone() else {
            return Ok(());
        };
        let writer = ["odd", "even"][(self.handles % 2) as usize];
        let beside = recorder.beside();
        let options = self.options_of(writer, Arc::new(beside.clone()));
        match options.open(&self.path) {
            Ok(other) => self.other = Some((Arc::new(other), beside)),
            // It went on with what was due, and could not. That is nothing to the first.
            Err(_) if self.has_failed_for(&beside) => {}
            Err(error) => return Err(self.failed("open beside", &error)),
        }
        Ok(())
    }

    /// Goes on with the other handle after a sync of the first has failed.
    fn go_on_beside(&mut self, other: Arc<Store>, recorder: Recorder) -> Outcome {
        if let Some(failed) = self.store.take() {
            let _ = failed.close();
        }
        if let Some(tape) = &self.tape {
            tape.forgive();
        }
        self.store = Some(other);
        self.recorder = Some(recorder);
        self.handles += 1;
        self.uncommitted = 0;
        let settle = self.setup.transactional || self.random.below(2) == 0;
        if settle {
            let settled = self.store()?.checkpoint();
            settled.map_err(|error| self.failed("checkpoint beside", &error))?;
        }
        let found = Arc::new(self.observe(self.store()?, &self.path)?);
        self.model
            .check(&found, Crash::Kill)
            .map_err(|text| Stop::Wrong(format!("beside a failed handle: {text}")))?;
        if settle {
            self.mark(Mark::Opened(found));
            return Ok(());
        }
        let sequences = found.commits.values().map(|(sequence, _)| *sequence);
        let sequence = sequences.max().unwrap_or(0) + 1;
        let writer = self.writer();
        self.mark(Mark::Resumed {
            found,
            writer,
            sequence,
        });
        let got = self.store()?.commit();
        let got = got.map_err(|error| self.failed("commit beside", &error))?;
        if got != sequence {
            return wrong(format!("commit {sequence} beside answered {got}"));
        }
        self.mark(Mark::Committed);
        Ok(())
    }

    /// An error is one of a killed process, or a broken promise.
    pub(super) fn failed(&self, what: &str, error: &Error) -> Stop {
        match &self.recorder {
            Some(recorder) if recorder.is_dead() => Stop::Killed,
            // Its handle can't go on: no more than a killed process.
            _ if self.has_failed() => Stop::Killed,
            _ => Stop::Wrong(format!("{what} failed: {error}")),
        }
    }

    /// Whether a sync of the handle in use has failed. Those of another one are its own affair.
    fn has_failed(&self) -> bool {
        let recorder = self.recorder.as_ref();
        recorder.is_some_and(|recorder| self.has_failed_for(recorder))
    }

    pub(super) fn has_failed_for(&self, recorder: &Recorder) -> bool {
        let tape = self.tape.as_ref();
        tape.is_some_and(|tape| tape.has_failed(recorder))
    }

    pub(super) fn store(&self) -> Outcome<&Store> {
        match &self.store {
            Some(store) => Ok(store),
            None => wrong("the session has no store"),
        }
    }

    /// The most keys that one transaction may change. A checkpoint of the background may have poisoned the handle.
    pub(super) fn quota(&self) -> Outcome<u64> {
        let uncommitted = self.store()?.uncommitted();
        Ok(uncommitted
            .map_err(|error| self.failed("uncommitted", &error))?
            .most)
    }

    pub fn create(&mut self) -> Outcome {
        let options = self.options();
        self.mark(Mark::CreateBegun);
        let store = options.create(&self.path);
        let store = store.map_err(|error| self.failed("create", &error))?;
        self.store = Some(Arc::new(store));
        self.mark(Mark::Created);
        Ok(())
    }

    /// Opens the store and holds what is in it against what was promised.
    pub fn open(&mut self, crash: Crash) -> Outcome {
        let options = self.options();
        let mut patience = PATIENCE;
        let store = loop {
            match options.open(&self.path) {
                // The checkpoint's thread of a killed process has the lock still.
                Err(Error::Locked { .. }) if patience > 0 => {
                    patience -= 1;
                    std::thread::yield_now();
                }
                Err(Error::NotFound { .. }) if self.model.birth != Birth::Done => {
                    return self.create();
                }
                outcome => break outcome.map_err(|error| self.failed("open", &error))?,
            }
        };
        let contents = Arc::new(self.observe(&store, &self.path)?);
        self.model
            .check(&contents, crash)
            .map_err(|text| Stop::Wrong(format!("after opening: {text}")))?;
        self.store = Some(Arc::new(store));
        self.uncommitted = 0;
        if self.handles == self.first_handle + 1 {
            self.found = Some(Arc::clone(&contents));
        }
        self.mark(Mark::Opened(contents));
        Ok(())
    }

    /// What is in the store, by everything that it can be asked.
    fn observe(&self, store: &Store, path: &Path) -> Outcome<Contents> {
        let mut contents = Contents::default();
        let top = u64::from(self.model.top);
        let hashes: Vec<_> = (0..top + 32).chain(NEVER).map(numbers::key).collect();
        let found = store.contains_batch(&hashes);
        let found = found.map_err(|error| self.failed("contains", &error))?;
        for (number, found) in (0..).zip(found) {
            match found {
                true if u64::from(number) < top => contents.keys.insert(number),
                true => return wrong("a key is there that was never inserted"),
                false => {}
            }
        }
        let stats = store.stats();
        let stats = stats.map_err(|error| self.failed("stats", &error))?;
        let there = contents.keys.count();
        // Where keys are forgotten, runs may have one twice.
        let is_so = stats.keys == there || self.setup.forgets.is_some() && stats.keys >= there;
        if !is_so {
            return wrong(format!(
                "stats tell of {} keys and {there} are there",
                stats.keys
            ));
        }
        contents.came = self.ages_of(path, &contents.keys)?;
        for commit in stats.commits {
            let entry = (commit.sequence, commit.tag);
            contents.commits.insert(commit.writer, entry);
        }
        let report = store.verify();
        let report = report.map_err(|error| self.failed("verify", &error))?;
        match report.is_ok() {
            true => Ok(contents),
            false => wrong(format!("verify found damage: {:?}", report.damaged)),
        }
    }

    pub(super) fn checkpoint(&mut self) -> Outcome {
        let outcome = self.store()?.checkpoint();
        outcome.map_err(|error| self.failed("checkpoint", &error))?;
        self.mark(Mark::Settled);
        Ok(())
    }

    pub fn close(&mut self) -> Outcome {
        if let Some((other, recorder)) = self.other.take() {
            let closed = other.close();
            if !self.has_failed_for(&recorder) {
                closed.map_err(|error| self.failed("close beside", &error))?;
            }
        }
        let outcome = self.store()?.close();
        outcome.map_err(|error| self.failed("close", &error))?;
        self.mark(Mark::Settled);
        self.store = None;
        if self.recorder.as_ref().is_some_and(Recorder::is_dead) {
            // It had done all it must, and was killed before it could tidy up.
            return Err(Stop::Killed);
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let names = names_in(folder).map_err(|error| Stop::Wrong(error.to_string()))?;
        match names == [NAME] {
            true => Ok(()),
            false => wrong(format!("after closing there are {names:?}")),
        }
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        if let Some(recorder) = &self.recorder {
            recorder.kill();
        }
        self.store = None;
        self.other = None;
    }

    /// Does one thing that users do.
    fn step(&mut self) -> Outcome {
        self.pass_time()?;
        if self.setup.faults
            && let Some(tape) = self.tape.clone()
            && self.random.below(8) == 0
        {
            if self.other.is_none() && self.random.below(2) == 0 {
                self.join()?;
            }
            tape.fail(self.random.below(5));
        }
        let dice = self.random.below(100);
        match dice {
            0..=34 => {
                let count = 1 + self.random.below(4);
                let numbers = self.draw(count);
                numbers
                    .into_iter()
                    .try_for_each(|number| self.change(vec![number]))
            }
            35..=57 => {
                let most = match self.setup.large && dice < 42 {
                    true => 3000,
                    false => 60,
                };
                let count = 1 + self.random.below(most);
                let quota = self.quota()?;
                let numbers = self.draw(count.min(quota - 5));
                self.change(numbers)
            }
            58..=80 => self.commit(),
            81..=88 => self.checkpoint(),
            89..=93 => {
                self.close()?;
                self.open(Crash::Kill)
            }
            94..=96 if self.setup.kills && self.tape.is_some() => Err(Stop::Killed),
            97..=99 if self.setup.kills => {
                let events = self.random.below(60);
                if let Some(tape) = &self.tape {
                    tape.burn(events);
                }
                Ok(())
            }
            _ => self.commit(),
        }
    }

    /// Does several things, and comes back whenever the process is killed.
    pub fn steps(&mut self, count: u64) -> Outcome {
        for _ in 0..count {
            let outcome = self.step();
            self.revive(outcome)?;
        }
        Ok(())
    }

    /// Opens the store again if a kill was what ended the outcome.
    pub fn revive(&mut self, mut outcome: Outcome) -> Outcome {
        while let Err(Stop::Killed) = outcome {
            let dead = self.recorder.as_ref().is_none_or(Recorder::is_dead);
            outcome = match self.other.take() {
                Some((other, recorder))
                    if self.has_failed() && !self.has_failed_for(&recorder) && !dead =>
                {
                    self.go_on_beside(other, recorder)
                }
                other => {
                    self.other = other;
                    self.kill();
                    self.open(Crash::Kill)
                }
            };
        }
        outcome
    }

    /// What anybody does who comes back after a power cut: goes on.
    pub fn go_on(&mut self) -> Outcome {
        let count = 1 + self.random.below(8);
        let numbers = self.draw(count);
        let before = self.model.done.clone();
        self.insert(numbers)?;
        let changed = self.model.done != before;
        self.commit()?;
        self.close()?;
        if changed && self.setup.kind == Kind::Fingerprint && self.random.below(8) == 0 {
            self.lose_a_superblock()?;
        }
        self.open(Crash::Kill)
    }

    /// The checkpoint that closed a store of fingerprints has named its directory in both superblocks, since the room of
    /// the one before is free: whichever is lost, nothing else is. No power cut shows that.
    fn lose_a_superblock(&self) -> Outcome {
        let outcome = |error: std::io::Error| Stop::Wrong(error.to_string());
        for place in SUPERBLOCKS {
            let mut bytes = std::fs::read(&self.path).map_err(outcome)?;
            bytes[place..place + 512].fill(0);
            let path = self.path.with_file_name("copy");
            std::fs::write(&path, bytes).map_err(outcome)?;
            let store = self.reader().open_read_only(&path);
            let store = store.map_err(|error| {
                Stop::Wrong(format!("without the superblock at {place}: {error}"))
            })?;
            let found = self.observe(&store, &path)?;
            self.model.check(&found, Crash::Kill).map_err(|text| {
                Stop::Wrong(format!("without the superblock at {place}: {text}"))
            })?;
            drop(store);
            std::fs::remove_file(&path).map_err(outcome)?;
        }
        Ok(())
    }
}
