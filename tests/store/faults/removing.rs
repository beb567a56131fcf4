//! Removals of a workload, and what is open when a call fails.

use everseen::testing::Appending;
use std::collections::BTreeSet;
use std::ops::Range;

use everseen::Error;

use super::run::{Model, Outcome, Run};
use crate::support::files::ready_keys;

impl Model {
    /// Keys that must be there, without those of an open transaction.
    pub(super) fn there(&self) -> BTreeSet<u64> {
        self.held.difference(&self.gone).copied().collect()
    }

    /// What was not committed is gone with its handle.
    pub(super) fn drop_open(&mut self) {
        self.pending.clear();
        self.gone.clear();
        self.ages.renewed.clear();
    }

    /// The commit of removals has failed: the keys may or may not be there. Answers which.
    pub(super) fn doubt_removals(&mut self) -> BTreeSet<u64> {
        let gone = std::mem::take(&mut self.gone);
        self.held.retain(|number| !gone.contains(number));
        self.maybe.extend(&gone);
        gone
    }
}

impl Run {
    pub(super) fn remove(&mut self, numbers: Range<u64>) -> Outcome {
        let mut rest = numbers;
        while !rest.is_empty() {
            let mut removed = Vec::new();
            let keys = &ready_keys()[rest.start as usize..rest.end as usize];
            let outcome = self.store().remove_into(keys, &mut removed);
            let done = rest.start..rest.start + removed.len() as u64;
            for (number, removed) in done.clone().zip(removed) {
                if !removed && !self.model.maybe.contains(&number) {
                    return Err(format!("key {number} was there, and could not be removed"));
                }
                match self.transactional {
                    true => _ = self.model.gone.insert(number),
                    false => _ = self.model.held.remove(&number),
                }
                self.model.maybe.remove(&number);
            }
            rest.start = done.end;
            match outcome {
                Ok(()) if rest.is_empty() => {}
                Ok(()) => return Err("a batch that is done lacks answers".to_owned()),
                Err(error) => {
                    if !self.transactional && matches!(error, Error::Poisoned { .. }) {
                        self.model.held.retain(|number| !rest.contains(number));
                        self.model.maybe.extend(rest.clone());
                    }
                    self.judge_and_redo("remove", &error)?;
                }
            }
        }
        Ok(())
    }

    /// Judges an error, and does again what was open if its handle could not go on.
    pub(super) fn judge_and_redo(&mut self, what: &str, error: &Error) -> Outcome {
        let pending = self.model.pending.clone();
        let gone = self.model.gone.clone();
        let renewed = self.model.ages.renewed.clone();
        if self.judge_and_go_on(what, error)? {
            self.insert_all(&pending)?;
            self.remove_all(&gone)?;
            self.renew_all(&renewed)?;
        }
        Ok(())
    }

    fn remove_all(&mut self, numbers: &BTreeSet<u64>) -> Outcome {
        for number in numbers {
            self.remove(*number..number + 1)?;
        }
        Ok(())
    }

    /// It is known by now whether the commit of these removals counts: if not, they are made again with a new handle, or
    /// are still open.
    pub(super) fn end_doubt(
        &mut self,
        gone: BTreeSet<u64>,
        (reopened, counts): (bool, bool),
    ) -> Outcome {
        for number in &gone {
            self.model.maybe.remove(number);
        }
        if counts {
            return self.expect_gone(&gone);
        }
        self.model.held.extend(&gone);
        match reopened {
            true => self.remove_all(&gone),
            false => {
                self.model.gone = gone;
                Ok(())
            }
        }
    }

    fn expect_gone(&self, gone: &BTreeSet<u64>) -> Outcome {
        match self.found(gone) {
            0 => Ok(()),
            found => Err(format!("{found} removed keys of a commit that counts")),
        }
    }
}
