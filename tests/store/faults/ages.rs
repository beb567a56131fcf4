//! Workloads of stores that forget: time passes, keys come again, and after each failed call none is older or younger than
//! it was.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use everseen::testing::{Appending, Options};
use everseen::{ForgetBy, Kind, Verdict};

use super::run::{Model, Outcome, Run, Setup, setup};
use crate::support::ages::{BEGIN, WINDOW, is_remembered, steps_of, within};
use crate::support::files::{ready_keys, small};

/// When keys came, in a store that forgets.
#[derive(Debug, Default)]
pub(super) struct Ages {
    /// The step that it is now, and whether keys are as old as when they last came; `None` in a store that never forgets.
    pub(super) clock: Option<(u64, ForgetBy)>,
    /// The step in which each came. A call that failed may have renewed it since.
    came: BTreeMap<u64, u64>,
    /// Those that may be of this step.
    pub(super) doubtful: BTreeSet<u64>,
    /// Those that came again and are not committed, in a transactional store.
    pub(super) renewed: BTreeSet<u64>,
}

/// How a store that forgets is made.
pub(super) fn forgetting(transactional: bool, by: ForgetBy) -> Setup {
    let setup = setup(Kind::Fingerprint, transactional);
    Setup {
        options: setup.options.forget_after(WINDOW).forget_by(by),
        forgets: Some(by),
        ..setup
    }
}

impl Model {
    /// A key is accepted now.
    pub(super) fn accept(&mut self, number: u64) {
        self.held.insert(number);
        if let Some((now, _)) = self.ages.clock {
            self.ages.came.insert(number, now);
        }
    }

    /// What came again is as old as now from here on.
    pub(super) fn accept_renewed(&mut self) {
        for number in std::mem::take(&mut self.ages.renewed) {
            self.accept(number);
        }
        self.ages.doubtful.clear();
    }

    /// These may have come again, or may be about to.
    pub(super) fn doubt_ages(&mut self, numbers: impl IntoIterator<Item = u64>) {
        if let Some((_, ForgetBy::Last)) = self.ages.clock {
            self.ages.doubtful.extend(numbers);
        }
    }

    fn pass(&mut self, steps: u64) {
        let Some((now, _)) = &mut self.ages.clock else {
            return;
        };
        *now += steps;
        let (now, came) = (*now, &self.ages.came);
        self.held.retain(|number| is_remembered(came[number], now));
    }
}

impl Run {
    /// The options with which a process opens the store now.
    pub(super) fn options_now(&self) -> Options {
        let options = self.options.clone();
        match self.model.ages.clock {
            Some((now, _)) => options.clock(within(now)),
            None => options,
        }
    }

    pub(super) fn pass(&mut self, steps: u64) -> Outcome {
        self.model.pass(steps);
        if let Some((now, _)) = self.model.ages.clock {
            let outcome = self.store().advance_to(within(now));
            outcome.map_err(|error| format!("advance: {error:?}"))?;
        }
        Ok(())
    }

    /// Inserts keys that are there, or renews them without asking. A call that failed is made again as a whole, since what
    /// it has seen it may not have renewed.
    pub(super) fn bring_again(&mut self, numbers: &Range<u64>, asks: bool) -> Outcome {
        let keys = &ready_keys()[numbers.start as usize..numbers.end as usize];
        loop {
            if !self.transactional {
                self.model.doubt_ages(numbers.clone());
            }
            let mut verdicts = Vec::new();
            let outcome = match asks {
                true => self.store().claim_into(keys, &mut verdicts),
                false => self.store().renew_batch(keys),
            };
            if verdicts.iter().any(|verdict| *verdict != Verdict::Seen) {
                return Err(format!("a key that is there was new: {verdicts:?}"));
            }
            match outcome {
                Ok(()) => break,
                Err(error) => self.judge_and_redo("insert", &error)?,
            }
        }
        if let Some((_, ForgetBy::Last)) = self.model.ages.clock {
            self.model.ages.renewed.extend(numbers.clone());
            if !self.transactional {
                self.model.accept_renewed();
            }
        }
        Ok(())
    }

    /// Brings again what had come again in a transaction that is lost.
    pub(super) fn renew_all(&mut self, numbers: &BTreeSet<u64>) -> Outcome {
        for number in numbers {
            self.bring_again(&(*number..number + 1), true)?;
        }
        Ok(())
    }

    /// Holds the age of each key against the model, as a reader finds it.
    pub(super) fn check_ages(&self) -> Outcome {
        let Some((now, _)) = self.model.ages.clock else {
            return Ok(());
        };
        let numbers: Vec<u64> = self.model.there().into_iter().collect();
        let keys: Vec<_> = numbers
            .iter()
            .map(|number| &ready_keys()[*number as usize])
            .collect();
        let reader = small().clock(within(now)).open_read_only(&self.path);
        let reader = reader.map_err(|error| format!("a reader: {error:?}"))?;
        for (number, found) in numbers.iter().zip(steps_of(&reader, &keys, now)) {
            let (model, came) = (&self.model.ages, self.model.ages.came[number]);
            // What a transaction has brought again has no age before its commit: a look-up counts it at any time.
            let is_so = found == Some(came)
                || model.doubtful.contains(number) && found == Some(now)
                || model.renewed.contains(number) && found == Some(now + 1)
                || self.model.maybe.contains(number);
            if !is_so {
                return Err(format!(
                    "key {number} came in step {} and is of {:?}, {} now",
                    came - BEGIN,
                    found.map(|step| step - BEGIN),
                    now - BEGIN
                ));
            }
        }
        Ok(())
    }

    /// Looks at the ages after a call that failed and whose handle goes on.
    pub(super) fn check_ages_honestly(&self) -> Outcome {
        let faults_to_come = self.storage.pause();
        let outcome = self.check_ages();
        self.storage.resume(faults_to_come);
        outcome
    }

    /// On a disk that is well.
    pub(super) fn purge(&self) -> Outcome {
        let purged = self.store().checkpoint_full();
        purged.map_err(|error| format!("purge: {error:?}"))
    }
}
