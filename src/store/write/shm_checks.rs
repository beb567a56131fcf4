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

use crate::buffer::{Wrong, limit_of};
use crate::error::Error;
use crate::file::layout::MAX_COUNTER;
use crate::log::LogEnd;
use crate::store::storefile::meta::read_meta_of;
use crate::store::write::guard::WriteGuard;

impl WriteGuard<'_> {
    /// Checks all that the holder of the writer lock is going to use, and takes down where the log ends: from here
    /// on that is not asked again.
    #[inline]
    pub(crate) fn check_memory(&mut self) -> Result<(), Error> {
        if self.writer.state.lock.is_none() {
            self.local.end = self.view.active.log_end();
            return Ok(());
        }
        let checked = self.checked_end();
        self.local.end = checked.map_err(|wrong| self.writer.handle.distrust(wrong))?;
        Ok(())
    }

    #[inline]
    fn checked_end(&self) -> Result<LogEnd, Wrong> {
        let (writer, view) = (self.writer, &self.view);
        let shared = writer.shared;
        let active = view.active.number();
        Wrong::unless_in("ended", 0..=0, shared.is_ended().into())?;
        Wrong::unless_in(
            "handle",
            writer.handle.number..=writer.handle.number,
            self.slot().handle(),
        )?;
        Wrong::unless_in("active", active..=active, shared.active())?;
        Wrong::unless_in("active", view.superblock.generation..=MAX_COUNTER, active)?;
        if !writer.state.biased {
            Wrong::unless_in("revoked", 1..=1, u64::from(shared.bias().is_revoked()))?;
        }
        view.active.buffer.check()?;
        let (sum, end) = view.sum_and_end(shared);
        Wrong::unless_in("sum", sum..=sum, shared.seal())?;
        Ok(end)
    }

    /// Leaves the sum for the next holder of the lock; `false` if the log's end is not what this one left
    /// there.
    #[inline]
    pub(crate) fn leave_sum(&self) -> bool {
        if self.writer.state.lock.is_none() {
            return true;
        }
        self.view.leave_sum(self.writer.shared);
        let (expected, found) = (self.local.end, self.view.active.log_end());
        if expected == found {
            return true;
        }
        self.writer.handle.distrust(Wrong {
            word: "tail",
            expected: expected.end.to_string(),
            got: found.end,
        });
        false
    }

    /// Checks the state of keys that this handle claims in a transactional store.
    pub(crate) fn check_transaction(&self, state: u16) -> Result<u16, Error> {
        let buffer = &self.view.active.buffer;
        if buffer.is_open(state, self.writer.handle.number) {
            return Ok(state);
        }
        Err(self.writer.handle.distrust(Wrong {
            word: "transaction",
            expected: format!("one of handle {}", self.writer.handle.number),
            got: state.into(),
        }))
    }

    /// Checks what keys were claimed by, before they are in the log.
    #[inline]
    pub(crate) fn check_table(&self) -> Result<(), Error> {
        match self.view.active.buffer.nonsense() {
            None => Ok(()),
            Some(wrong) => Err(self.writer.handle.distrust(wrong)),
        }
    }

    /// Checks that the view shows the newest superblock, before one that follows it is written, or a log is closed for
    /// its layers: with words of a while ago, a view of a while ago seems to be current.
    pub(crate) fn check_view(&self) -> Result<(), Error> {
        let writer = self.writer;
        let newest = read_meta_of(&*writer.file.raw, &writer.file.place)?.superblock;
        let known = self.view.superblock.generation;
        Wrong::unless_in("settled", newest.generation..=newest.generation, known)
            .map_err(|wrong| writer.handle.distrust(wrong))
    }

    /// Checks the size of the buffers that are to be made, by the one there is; a last one has no room for a key.
    pub(crate) fn check_size(&self, bytes: u64) -> Result<(), Error> {
        let limit = self.view.active.buffer.limit();
        if limit == limit_of(bytes) || limit == limit_of(0) {
            return Ok(());
        }
        Err(self.writer.handle.distrust(Wrong {
            word: "buffer bytes",
            expected: format!("those of a buffer for {limit} keys"),
            got: bytes,
        }))
    }
}
