//! What is read from shared memory is checked before it is used to write, to remove or to find a place.
//!
//! Processes that may write the store share its memory, and each could spoil what the others read there: by a fault of
//! its own, or by writing into a file that it mistakes for another. What can be told is told as
//! [`Error::SharedMemory`], after which all handles must reopen: they recover from the logs. What can't be told stays
//! within memory: a log is never written to where it does not end, nor a file removed that a superblock needs, and at
//! a checkpoint the log decides which keys go into the pages.
//!
//! The holder of the writer lock leaves a sum of the words that change under it alone, and the next one finds
//! it there, or somebody has been at them.

use crate::buffer::{Buffer, Digest, Sum, Wrong, limit_of};
use crate::error::Error;
use crate::file::superblock::MAX_COUNTER;
use crate::store::engine::{Engine, View};
use crate::store::generation::log_summary::Scan;
use crate::store::storefile::meta::read_identity;
use crate::store::write::guard::Writing;

/// Bytes of a log that a mark takes, at least.
const LEAST_MARK: u64 = 48;

impl Engine {
    /// Ends the work of all handles on a memory that can't be believed.
    #[cold]
    pub(crate) fn distrust(&self, wrong: Wrong) -> Error {
        self.poison(wrong.at(&self.place))
    }

    /// Checks which generations the words name, after those of an older view. `active` was the same before
    /// and after `settled` was read.
    pub(crate) fn check_turn(old: &View, active: u64, settled: u64) -> Result<(), Wrong> {
        Wrong::unless_in("active", old.active.number()..=MAX_COUNTER, active)?;
        Wrong::unless_in("settled", active.saturating_sub(1)..=active, settled)
    }

    /// Checks the number of the last commit, by the holder of the writer lock: no more can have come since the
    /// superblock than the logs have room for.
    pub(crate) fn check_sequence(&self, view: &View) -> Result<u64, Wrong> {
        let logs = view.frozen.iter().chain([&view.active]);
        let bytes = logs.fold(0_u64, |sum, one| sum.saturating_add(one.buffer.tail().end));
        let least = view.superblock.commit_sequence;
        let most = least.saturating_add(bytes / LEAST_MARK);
        let got = self.shared.commit_sequence();
        Wrong::unless_in("commit sequence", least..=most.min(MAX_COUNTER - 1), got)?;
        Ok(got)
    }

    /// The sum of all words that change under the writer lock alone.
    #[inline]
    fn sum_of(&self, view: &View) -> u64 {
        let mut sum = Sum::default();
        self.shared.sum(&mut sum);
        view.active.buffer.sum(&mut sum);
        sum.value()
    }

    /// Leaves the sum for the next holder of the lock: by the holder before, or by who has opened the store
    /// first or gone on after a death.
    #[inline]
    pub(crate) fn leave_sum(&self, view: &View) {
        self.shared.set_seal(self.sum_of(view));
    }

    /// Checks a handle's uncommitted keys, as the table has them: what is missing there would be gone with the log.
    pub(crate) fn expect_keys(
        &self,
        handle: u64,
        expected: Digest,
        keys: &[u64],
    ) -> Result<(), Error> {
        let found = Digest::of(keys);
        if found == expected {
            return Ok(());
        }
        Err(self.distrust(Wrong {
            word: "table",
            expected: format!("{} keys of handle {handle}, as they were", expected.keys),
            got: found.keys,
        }))
    }

    /// Whether the closed buffer holds what its log does, as far as that must be known before any of it is
    /// used, for exemptions. Of memory that nobody shares there is no doubt.
    pub(crate) fn agrees(&self, buffer: &Buffer, found: &Scan, has_exemptions: bool) -> bool {
        if self.writer_lock.is_none() {
            return true;
        }
        let digest = || match self.is_counting() {
            true => buffer.net_digest(0..=u64::MAX),
            false => buffer.digest(),
        };
        buffer.tail().end == found.end.end && (!has_exemptions || digest() == found.digest)
    }
}

impl Wrong {
    pub(crate) fn at(self, store: &std::path::Path) -> Error {
        Error::SharedMemory {
            path: store.to_owned(),
            word: self.word,
            expected: self.expected,
            got: self.got,
        }
    }
}

impl Writing<'_> {
    /// Checks all that the holder of the writer lock is going to use, and takes down where the log ends: from here
    /// on that is not asked again.
    #[inline]
    pub(crate) fn check_memory(&mut self) -> Result<(), Error> {
        self.local.end = self.view.active.log_end();
        if self.engine.writer_lock.is_none() {
            return Ok(());
        }
        self.find_wrong()
            .map_err(|wrong| self.engine.distrust(wrong))
    }

    #[inline]
    fn find_wrong(&self) -> Result<(), Wrong> {
        let (engine, view) = (self.engine, &self.view);
        let shared = &engine.shared;
        let active = view.active.number();
        Wrong::unless_in("ended", 0..=0, shared.is_ended().into())?;
        Wrong::unless_in(
            "handle",
            engine.handle..=engine.handle,
            self.slot().handle(),
        )?;
        Wrong::unless_in("active", active..=active, shared.active())?;
        Wrong::unless_in("active", view.superblock.generation..=MAX_COUNTER, active)?;
        if !engine.biased {
            Wrong::unless_in("revoked", 1..=1, u64::from(shared.bias().is_revoked()))?;
        }
        view.active.buffer.check()?;
        let sum = engine.sum_of(view);
        Wrong::unless_in("sum", sum..=sum, shared.seal())
    }

    /// Leaves the sum for the next holder of the lock; `false` if the log's end is not what this one left
    /// there.
    #[inline]
    pub(crate) fn leave_sum(&self) -> bool {
        if self.engine.writer_lock.is_none() {
            return true;
        }
        self.engine.leave_sum(&self.view);
        let (expected, found) = (self.local.end, self.view.active.log_end());
        if expected == found {
            return true;
        }
        self.engine.distrust(Wrong {
            word: "tail",
            expected: expected.end.to_string(),
            got: found.end,
        });
        false
    }

    /// Checks the state of keys that this handle claims in a transactional store.
    pub(crate) fn check_transaction(&self, state: u16) -> Result<u16, Error> {
        let buffer = &self.view.active.buffer;
        if buffer.is_open(state, self.engine.handle) {
            return Ok(state);
        }
        Err(self.engine.distrust(Wrong {
            word: "transaction",
            expected: format!("one of handle {}", self.engine.handle),
            got: state.into(),
        }))
    }

    /// Checks what keys were claimed by, before they are in the log.
    #[inline]
    pub(crate) fn check_table(&self) -> Result<(), Error> {
        match self.view.active.buffer.nonsense() {
            None => Ok(()),
            Some(wrong) => Err(self.engine.distrust(wrong)),
        }
    }

    /// Checks that the view shows the newest superblock, before one that follows it is written, or a log is closed for
    /// its layers: with words of a while ago, a view of a while ago seems to be current.
    pub(crate) fn check_view(&self) -> Result<(), Error> {
        let engine = self.engine;
        let newest = read_identity(&*engine.file, &engine.place)?.superblock;
        let known = self.view.superblock.generation;
        Wrong::unless_in("settled", newest.generation..=newest.generation, known)
            .map_err(|wrong| engine.distrust(wrong))
    }

    /// Checks the size of the buffers that are to be made, by the one there is; a last one has no room for a key.
    pub(crate) fn check_size(&self, bytes: u64) -> Result<(), Error> {
        let limit = self.view.active.buffer.limit();
        if limit == limit_of(bytes) || limit == limit_of(0) {
            return Ok(());
        }
        Err(self.engine.distrust(Wrong {
            word: "buffer bytes",
            expected: format!("those of a buffer for {limit} keys"),
            got: bytes,
        }))
    }
}
