//! What a counting store was promised to hold: a multiset, and what has been done to it since.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::recorded::{Promises, Remark, disk, tape};

/// How often each key is there; keys that are not there are left out.
pub type Counts = BTreeMap<u32, i64>;

/// Keys that one call counts, each by one.
#[derive(Debug, Clone)]
pub struct Batch {
    pub up: bool,
    pub keys: Vec<u32>,
}

/// What the user of a store has seen.
#[derive(Debug, Clone)]
pub enum Mark {
    Created,
    Begun(Arc<Batch>),
    /// It has returned.
    Done,
    CommitBegun,
    Committed,
    /// A checkpoint or a close has returned.
    Settled,
    /// The store was opened, and holds that.
    Opened(Arc<Counts>),
}

impl Remark for Mark {
    fn describe(&self) -> String {
        match self {
            Mark::Opened(counts) => format!("opened, {} keys", counts.len()),
            Mark::Begun(batch) => format!("{} of {} keys", batch.up, batch.keys.len()),
            other => format!("{other:?}"),
        }
    }

    fn committing(&self) -> Option<bool> {
        match self {
            Mark::CommitBegun => Some(true),
            Mark::Committed => Some(false),
            _ => None,
        }
    }
}

/// The recorded disk, with these remarks on its tape.
pub type Event = disk::Event<Mark>;
pub type Tape = tape::Tape<Mark>;
pub type Recorder = tape::Recorder<Mark>;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    Kill,
    Power,
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub is_made: bool,
    /// What is durable for certain.
    base: Counts,
    /// What was done since, one key after the other.
    since: Vec<(u32, i64)>,
    /// So many of those have returned.
    done: usize,
    /// So many a commit under way covers.
    committing: usize,
}

pub fn count(counts: &mut Counts, key: u32, by: i64) {
    let held = counts.entry(key).or_default();
    *held += by;
    if *held == 0 {
        counts.remove(&key);
    }
}

impl Promises for Model {
    type Remark = Mark;

    fn take(&mut self, mark: &Mark) {
        match mark {
            Mark::Created => self.is_made = true,
            Mark::Begun(batch) => {
                let by = if batch.up { 1 } else { -1 };
                self.since.extend(batch.keys.iter().map(|key| (*key, by)));
            }
            Mark::Done => self.done = self.since.len(),
            Mark::CommitBegun => self.committing = self.done,
            Mark::Committed => self.settle(self.committing),
            Mark::Settled => self.settle(self.done),
            Mark::Opened(counts) => {
                *self = Self {
                    is_made: true,
                    base: Counts::clone(counts),
                    ..Self::default()
                };
            }
        }
    }
}

impl Model {
    fn settle(&mut self, durable: usize) {
        for (key, by) in self.since.drain(..durable) {
            count(&mut self.base, key, by);
        }
        self.done -= durable;
        self.committing = 0;
    }

    /// What is there for who has just done all that.
    pub fn now(&self) -> Counts {
        let mut counts = self.base.clone();
        for (key, by) in &self.since[..self.done] {
            count(&mut counts, *key, *by);
        }
        counts
    }

    /// Whether a store may hold this: what was done up to some point, which is no earlier than what is
    /// durable, or after a kill than what has returned.
    pub fn check(&self, got: &Counts, crash: Crash) -> Result<(), String> {
        let least = match crash {
            Crash::Kill => self.done,
            Crash::Power => 0,
        };
        let mut twin = self.base.clone();
        let mut best = (usize::MAX, 0);
        for done in 0..=self.since.len() {
            if let Some((key, by)) = done.checked_sub(1).map(|last| self.since[last]) {
                count(&mut twin, key, by);
            }
            if done < least {
                continue;
            }
            if twin == *got {
                return Ok(());
            }
            let keys = twin.keys().chain(got.keys());
            let wrong = keys.filter(|key| twin.get(key) != got.get(key)).count();
            best = best.min((wrong, done));
        }
        Err(format!(
            "what is there was never there: {} of {} operations come nearest, with {} keys wrong; {} have returned",
            best.1,
            self.since.len(),
            best.0,
            self.done
        ))
    }
}
