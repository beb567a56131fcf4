//! How a session commits, and what another handle inserts while the log is synced for it.

use everseen::{Error, Kind};
use std::sync::{Arc, Mutex};

use super::model::{Mark, Recorder};
use super::session::{Outcome, Session, Stop, wrong};
use crate::support::numbers;
use crate::support::recorded::Promises;

/// Keys that another handle inserts during a commit, if the log is synced for it.
pub(super) struct Meanwhile {
    numbers: Arc<[u32]>,
    recorder: Recorder,
    answer: Arc<Mutex<Option<everseen::Result<Vec<bool>>>>>,
}

impl Session<'_> {
    pub(super) fn commit(&mut self) -> Outcome {
        let sequence = self.model.next_sequence();
        let most = match self.random.below(10) {
            0..=5 => 1,
            6..=7 => 20,
            8 => 900,
            _ => 4097,
        };
        // Longer tags make for superblocks of several sectors.
        let tag: Arc<[u8]> = (0..self.random.below(most))
            .map(|_| self.random.next() as u8)
            .collect();
        let writer = self.writer();
        self.mark(Mark::CommitBegun {
            writer,
            sequence,
            tag: Arc::clone(&tag),
        });
        let meanwhile = self.insert_meanwhile()?;
        let store = self.store()?;
        let outcome = match tag.is_empty() {
            true => store.commit(),
            false => store.commit_with(&tag),
        };
        self.account_for(meanwhile)?;
        let got = outcome.map_err(|error| self.failed("commit", &error))?;
        if got != sequence {
            return wrong(format!("commit {sequence} answered {got}"));
        }
        self.mark(Mark::Committed);
        self.uncommitted = 0;
        let last = self.store()?.last_commit(writer);
        let last = last.map_err(|error| self.failed("last_commit", &error))?;
        match last.is_some_and(|last| last.sequence == sequence && *last.tag == *tag) {
            true => Ok(()),
            false => wrong("last_commit is not the last commit"),
        }
    }

    /// Has another handle insert keys during the sync of the next commit, at times. That sync does not cover them, and
    /// nothing on the disk may claim it does. In a transactional store that handle would have to commit them.
    fn insert_meanwhile(&mut self) -> Outcome<Option<Meanwhile>> {
        let Some(tape) = self.tape.clone() else {
            return Ok(None);
        };
        let count = 1 + self.random.below(3);
        let is_full = self.model.may.count() + count > self.setup.capacity;
        let has_room = self.setup.kind == Kind::Scalable || !is_full;
        if self.setup.transactional || !has_room || self.random.below(4) > 0 {
            return Ok(None);
        }
        if self.other.is_none() {
            self.join()?;
        }
        let Some((store, recorder)) = &self.other else {
            return Ok(None);
        };
        let top = self.model.top;
        let meanwhile = Meanwhile {
            numbers: (top..top + count as u32).collect(),
            recorder: recorder.clone(),
            answer: Arc::default(),
        };
        let (store, told) = (Arc::clone(store), Arc::clone(&tape));
        let (numbers, answer) = (
            Arc::clone(&meanwhile.numbers),
            Arc::clone(&meanwhile.answer),
        );
        tape.while_syncing(move || {
            told.mark(&Mark::Insert(Arc::clone(&numbers)));
            let hashes: Vec<_> = numbers
                .iter()
                .map(|number| numbers::key(u64::from(*number)))
                .collect();
            let outcome = store.insert_batch(&hashes).map_err(Error::from);
            if outcome.is_ok() {
                told.mark(&Mark::Inserted(numbers));
            }
            *answer.lock().unwrap() = Some(outcome);
        });
        Ok(Some(meanwhile))
    }

    /// Takes note of what the other handle has inserted meanwhile.
    fn account_for(&mut self, meanwhile: Option<Meanwhile>) -> Outcome {
        let (Some(meanwhile), Some(tape)) = (meanwhile, &self.tape) else {
            return Ok(());
        };
        tape.forget_meanwhile();
        let answer = meanwhile.answer.lock().unwrap().take();
        let Some(answer) = answer else {
            return Ok(());
        };
        let numbers = meanwhile.numbers;
        self.model.take(&Mark::Insert(Arc::clone(&numbers)));
        match answer {
            Ok(new) if new.iter().all(|new| *new) => {
                self.model.take(&Mark::Inserted(numbers));
                Ok(())
            }
            Ok(new) => wrong(format!("inserting {numbers:?} beside answered {new:?}")),
            // Whether its keys count shows when the store is opened again.
            Err(_) if self.is_over_for(&meanwhile.recorder) => Err(Stop::Killed),
            Err(error) => wrong(format!("insert beside failed: {error}")),
        }
    }

    fn is_over_for(&self, recorder: &Recorder) -> bool {
        recorder.is_dead() || self.has_failed_for(recorder)
    }
}
