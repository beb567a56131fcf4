//! Inserts, removes, commits, rotates, and takes over from a writer that died.
//!
//! - Promises: a key is in the log before a reader sees it, and the next holder of the lock completes or undoes what a
//!   death leaves half done.
//! - May touch: the active generation and its log, the shared words, and a superblock for a first log.
//! - Lock: the writer lock. A rotation waits for the previous checkpoint while it holds the lock.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use crate::config::open_options::OpenOptions;
use crate::engine::Engine;
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::read::Reader;
use crate::engine::view::ViewCell;
use crate::engine::write::count::{Counted, Operation};
use crate::engine::write::verdict::{OnPending, Verdict};
use crate::engine::writer_state::WriterState;
use crate::error::Result;
use crate::generation::buffer_pool::BufferPool;
use crate::generation::log_files::LogFiles;
use crate::generation::sampling::FprSample;
use crate::memtable::limit_of;
use crate::page::KeyModel;
use crate::page_io::checkpoint_state::CheckpointState;
use crate::prefetch::hash_source::HashSource;
use crate::prefetch::hints::LookupHints;
use crate::shm::coordination::Coordination;
use crate::shm::handle::Handle;
use crate::storefile::store_file::StoreFile;

pub(crate) mod carry;
pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod count;
pub(crate) mod exempt;
pub(crate) mod fpr_sample;
pub(crate) mod guard;
pub(crate) mod insert;
pub(crate) mod next_generation;
pub(crate) mod quiesce;
pub(crate) mod remove;
pub(crate) mod renew;
pub(crate) mod rotation;
pub(crate) mod shm_checks;
pub(crate) mod takeover;
pub(crate) mod verdict;
pub(crate) mod write_batch;

/// The parts of an open store that writing needs. [`lock`](Self::lock) returns a [`WriteGuard`](guard::WriteGuard),
/// which may change them.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) options: &'a OpenOptions,
    pub(crate) shared: &'a Coordination,
    pub(crate) handle: &'a Handle,
    pub(crate) file: &'a StoreFile,
    pub(crate) logs: &'a LogFiles,
    pub(crate) buffers: &'a BufferPool,
    pub(crate) views: &'a ViewCell,
    pub(crate) state: &'a WriterState,
    pub(crate) sample: &'a FprSample,
    pub(crate) hints: &'a LookupHints,
    checkpoints: &'a CheckpointState,
    /// Only for the checkpoint's thread, which must keep the engine alive.
    engine: &'a Weak<Engine>,
}

impl<'a> Writer<'a> {
    #[inline]
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            options: &engine.options,
            shared: &engine.shared,
            handle: &engine.handle,
            file: &engine.file,
            logs: &engine.logs,
            buffers: &engine.buffers,
            views: &engine.views,
            state: &engine.writer,
            sample: &engine.sample,
            hints: &engine.hints,
            checkpoints: &engine.checkpoints,
            engine: &engine.itself,
        }
    }

    /// Looks keys up without a lock.
    #[inline]
    fn reader(&self) -> Reader<'a> {
        Reader {
            views: self.views,
            file: self.file,
            handle: self.handle,
            shared: self.shared,
            hints: self.hints,
            on_damage: self.options.on_damage,
        }
    }

    /// Moves sealed generations into the pages.
    #[inline]
    fn checkpointer(&self) -> Checkpointer<'a> {
        Checkpointer {
            options: self.options,
            handle: self.handle,
            shared: self.shared,
            file: self.file,
            logs: self.logs,
            views: self.views,
            writer: self.state,
            hints: self.hints,
            state: self.checkpoints,
            engine: self.engine,
        }
    }

    /// Notes how many keys a batch is about to change, for the first log of a session, which prepares its buffer for them.
    #[inline]
    fn expect_changes(&self, count: impl FnOnce() -> usize) {
        if !self.views.cell.load().active.has_log() {
            self.hints.coming.store(count(), Ordering::Relaxed);
        }
    }

    /// Returns how many uncommitted keys a handle may have: it stays the same whatever size the next buffer has.
    pub(crate) fn quota(&self) -> u64 {
        match self.file.header.transactional {
            true => {
                let none = limit_of(0);
                // A buffer without room for a key is the last of a session.
                match self.views.cell.load().active.buffer.limit() == none {
                    true => none / 2,
                    false => limit_of(self.shared.buffer_sizes().least) / 2,
                }
            }
            false => u64::MAX,
        }
    }
}

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
