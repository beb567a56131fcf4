//! Inserts and removes keys: chooses by what the store knows of a key.

use crate::engine::write::Writer;
use crate::engine::write::count::{Counted, Operation};
use crate::engine::write::verdict::{OnPending, Verdict};
use crate::error::Result;
use crate::page::KeyModel;
use crate::prefetch::hash_source::HashSource;

impl Writer<'_> {
    /// Inserts one key.
    pub(crate) fn claim_single(&self, hash: u64) -> Result<Verdict> {
        match self.file.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => self.claim_in_set(hash),
            KeyModel::Multiset => Ok(self.count_single(Operation::Insert, hash)?.verdict()),
        }
    }

    /// Inserts the keys of a part in order and appends a verdict for each; with [`OnPending::Stop`] only up to the first
    /// key that is pending. Where keys are counted, `counting` says which ones: all, or those that are absent.
    ///
    /// On an error the verdicts are those of the keys before the one that failed, and those keys are done.
    pub(crate) fn claim_part(
        &self,
        keys: &dyn HashSource,
        counting: Operation,
        on_pending: OnPending,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        match self.file.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => {
                self.claim_part_in_set(keys, on_pending, verdicts)
            }
            KeyModel::Multiset => self.count_verdicts(counting, keys, verdicts),
        }
    }

    /// Refuses to remove keys from a store that can't.
    pub(crate) fn check_removes(&self) -> Result<()> {
        match self.file.model.has_removes() {
            true => Ok(()),
            false => {
                let expected = "a store of kind counting or fingerprint";
                Err(self.file.wrong_kind("remove keys", expected))
            }
        }
    }

    /// Removes one key once, and returns whether it was there.
    ///
    /// # Errors
    /// The store can't remove keys.
    pub(crate) fn remove_single(&self, hash: u64) -> Result<bool> {
        let mut removed = Vec::with_capacity(1);
        self.remove_each(&vec![hash], &mut removed)?;
        // One key gives one answer.
        Ok(removed[0])
    }

    /// Removes the keys of a part once each, in order, and appends whether each was there. On an error the answers are
    /// those of the keys before the one that failed, and those keys are done.
    ///
    /// # Errors
    /// The store can't remove keys.
    pub(crate) fn remove_each(&self, keys: &dyn HashSource, removed: &mut Vec<bool>) -> Result<()> {
        match self.file.model {
            KeyModel::GrowOnlySet => self.check_removes(),
            KeyModel::Set(_) => self.remove_from_set(keys, removed),
            KeyModel::Multiset => {
                let mut counted = Vec::with_capacity(keys.count());
                let outcome = self.count_each(Operation::Remove, keys, &mut counted);
                removed.extend(counted.into_iter().map(|counted| counted.done));
                outcome
            }
        }
    }

    /// Removes one key once if the buffers prove that it was inserted.
    ///
    /// # Errors
    /// The store does not know how often a key was inserted.
    pub(crate) fn remove_proven(&self, hash: u64) -> Result<Counted> {
        match self.file.model {
            // A set removes keys, but not this way.
            KeyModel::GrowOnlySet | KeyModel::Set(_) => {
                let action = "prove that a key was inserted";
                Err(self.file.wrong_kind(action, "a store of kind counting"))
            }
            KeyModel::Multiset => self.count_single(Operation::RemoveProven, hash),
        }
    }
}
