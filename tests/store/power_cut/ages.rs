//! What is promised of the ages of keys, in a store that forgets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use everseen::ForgetBy;
use everseen::testing::Options;

use super::model::{Contents, Crash, Keys, Mark, Model};
use super::session::{Outcome, Session, wrong};
use crate::support::ages::{STEPS, is_remembered, steps_of, within};
use crate::support::numbers;
use crate::support::unsynced::Unsynced;

/// The steps in which keys came: the first and the last that it may have been.
pub type Came = BTreeMap<u32, (u64, u64)>;

/// The ages of a store that one thread uses.
#[derive(Debug, Clone, Default)]
pub struct Ages {
    /// Which step it is, and from when on an age counts; `None` if nothing is forgotten.
    pub clock: Option<(u64, ForgetBy)>,
    /// In a plain store: the last one is the right one as long as the power stays.
    came: Came,
    /// Keys whose insert has begun and has not returned.
    under_way: BTreeSet<u32>,
    /// In a transactional store: those whose age is that of the next commit.
    open: BTreeSet<u32>,
}

impl Contents {
    /// Takes out what is forgotten in a step.
    fn forget(&mut self, now: u64) {
        let keys = &mut self.keys;
        self.came.retain(|number, (_, last)| {
            let stays = is_remembered(*last, now);
            if !stays {
                keys.remove(*number);
            }
            stays
        });
    }
}

impl Model {
    /// Steps pass.
    pub(super) fn pass(&mut self, now: u64) {
        if let Some((clock, _)) = &mut self.ages.clock {
            *clock = now;
        }
        if self.transactional {
            let mut gone: Vec<u32> = self.last.came.keys().copied().collect();
            Arc::make_mut(&mut self.last).forget(now);
            let (came, open) = (&self.last.came, &self.ages.open);
            gone.retain(|number| !came.contains_key(number) && !open.contains(number));
            for number in gone {
                self.all_keys().for_each(|keys| keys.remove(number));
            }
            return;
        }
        let mut came = std::mem::take(&mut self.ages.came);
        came.retain(|number, (first, last)| {
            if is_remembered(*first, now) {
                return true;
            }
            // An older age may be the one that counts after a power cut, and the key is forgotten then.
            self.must.remove(*number);
            let states = [
                Some(&mut self.last),
                self.begun.as_mut(),
                self.doubtful.as_mut(),
            ];
            for state in states.into_iter().flatten() {
                Arc::make_mut(state).keys.remove(*number);
            }
            let stays = is_remembered(*last, now);
            match stays {
                true => *first = now - STEPS,
                false => self.all_keys().for_each(|keys| keys.remove(*number)),
            }
            stays
        });
        self.ages.came = came;
    }

    /// These are about to be inserted, before anything else takes note of them.
    pub(super) fn begin_ages(&mut self, numbers: &[u32]) {
        let Some((now, by)) = self.ages.clock else {
            return;
        };
        for number in numbers {
            let is_there = self.done.contains(*number);
            if is_there && by == ForgetBy::First {
                continue;
            }
            if self.transactional {
                if !is_there || self.last.came.get(number) != Some(&(now, now)) {
                    self.ages.open.insert(*number);
                }
                continue;
            }
            self.ages.under_way.insert(*number);
            let was_there = self.may.contains(*number);
            let before = self.ages.came.get(number).filter(|_| was_there);
            let first = before.map_or(now, |(first, _)| *first);
            self.ages.came.insert(*number, (first, now));
        }
    }

    pub(super) fn end_ages(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.ages.under_way.remove(number);
        }
    }

    /// The ages that a commit of these keys gives.
    pub(super) fn ages_of_commit(&self) -> Came {
        let Some((now, _)) = self.ages.clock.filter(|_| self.transactional) else {
            return Came::new();
        };
        let mut came = self.last.came.clone();
        came.extend(self.ages.open.iter().map(|number| (*number, (now, now))));
        came.retain(|number, _| self.done.contains(*number));
        came
    }

    /// A commit has returned, or a checkpoint: no power cut brings an older age back.
    pub(super) fn settle_ages(&mut self) {
        self.ages.open.clear();
        let under_way = &self.ages.under_way;
        for (number, (first, last)) in &mut self.ages.came {
            if !under_way.contains(number) && self.done.contains(*number) {
                *first = *last;
            }
        }
    }

    /// The ages that a store has when it is opened, or when another handle goes on: then a power cut may bring back what
    /// was removed.
    pub(super) fn take_ages(&mut self, found: &Contents, back: impl Fn(u32) -> bool) {
        let before = std::mem::take(&mut self.ages.came);
        self.ages.open.clear();
        self.ages.under_way.clear();
        self.ages.came = before;
        self.ages.came.retain(|number, _| back(*number));
        for (number, (_, last)) in &found.came {
            let came = self.ages.came.entry(*number).or_insert((*last, *last));
            came.1 = *last;
        }
    }

    /// Holds the ages of a store against the promises. `named` is the state that its commits name.
    pub(super) fn check_ages(
        &self,
        got: &Contents,
        named: &Contents,
        crash: Crash,
    ) -> Result<(), String> {
        let expected = match self.transactional {
            true => &named.came,
            false => &self.ages.came,
        };
        for (number, (step, _)) in &got.came {
            let Some((first, last)) = expected.get(number) else {
                return Err(format!("key {number} of step {step} has no age"));
            };
            let is_sure = crash == Crash::Kill && !self.ages.under_way.contains(number);
            let first = if is_sure { last } else { first };
            if !(first..=last).contains(&step) {
                return Err(format!(
                    "key {number} is of step {step} and came in {first} to {last}"
                ));
            }
        }
        Ok(())
    }
}

impl Session<'_> {
    /// The options of one that only reads, and so keeps its time to itself.
    pub(super) fn reader(&self) -> Options {
        let options = Options::new().storage(Unsynced::new());
        match self.model.ages.clock {
            Some((now, _)) => options.clock(within(now)),
            None => options,
        }
    }

    /// Lets some steps pass in a store that forgets, and at times a window.
    pub(super) fn pass_time(&mut self) -> Outcome {
        let Some((now, _)) = self.model.ages.clock else {
            return Ok(());
        };
        if self.random.below(4) > 0 {
            return Ok(());
        }
        let most = [4, 20][usize::from(self.random.below(8) == 0)];
        let now = now + self.random.below(most);
        self.mark(Mark::Passed(now));
        let passed = self.store()?.advance_to(within(now));
        passed.map_err(|error| self.failed("advance", &error))
    }

    /// When the keys of a store came, as a reader finds it.
    pub(super) fn ages_of(&self, path: &Path, keys: &Keys) -> Outcome<Came> {
        let Some((now, _)) = self.model.ages.clock else {
            return Ok(Came::new());
        };
        let reader = self.reader().open_read_only(path);
        let reader = reader.map_err(|error| self.failed("a reader", &error))?;
        let there = (0..keys.end()).filter(|number| keys.contains(*number));
        let there: Vec<u32> = there.collect();
        let hashes = there.iter().map(|number| numbers::key(u64::from(*number)));
        let found = steps_of(&reader, &hashes.collect::<Vec<_>>(), now);
        let mut came = Came::new();
        for (number, found) in there.into_iter().zip(found) {
            let Some(step) = found else {
                return wrong(format!("a reader does not see key {number}"));
            };
            came.insert(number, (step, step));
        }
        Ok(came)
    }
}
