//! Checks values from shared memory before they are used to write, to remove or to find a place.
//!
//! Processes that may write the store share its memory. Each could corrupt what the others read there: by a bug of its
//! own, or by writing into a file that it mistakes for another. Detectable corruption is reported as
//! [`Error::SharedMemory`], after which all handles must reopen: they recover from the logs. Undetectable corruption
//! stays within memory. A log is written only at its true end, a file that a superblock needs is never removed, and at
//! a checkpoint the log decides which keys go into the pages.
//!
//! The holder of the writer lock leaves a checksum of the words that change only under that lock. If the next holder
//! finds a different sum, something else has changed the words.

use crate::engine::write::guard::WriteGuard;
use crate::error::Error;
use crate::file::layout::MAX_COUNTER;
use crate::memtable::ShmCorruption;
use crate::storefile::meta::read_meta_of;
use crate::wal::LogEnd;

impl WriteGuard<'_> {
    /// Checks everything that the holder of the writer lock is about to use, and records where the log ends. From here
    /// on the holder does not read that from shared memory again.
    #[inline]
    pub(crate) fn check_memory(&mut self) -> Result<(), Error> {
        if !self.writer.state.is_shared {
            self.local.end = self.view.active.log_end();
            return Ok(());
        }
        let checked = self.checked_end();
        self.local.end = checked.map_err(|wrong| self.writer.handle.poison_shared(wrong))?;
        Ok(())
    }

    #[inline]
    fn checked_end(&self) -> Result<LogEnd, ShmCorruption> {
        let (writer, view) = (self.writer, &self.view);
        let shared = writer.shared;
        let active = view.active.number();
        ShmCorruption::unless_in("ended", 0..=0, shared.is_ended().into())?;
        ShmCorruption::unless_in(
            "handle",
            writer.handle.number..=writer.handle.number,
            self.slot().handle(),
        )?;
        ShmCorruption::unless_in("active", active..=active, shared.active())?;
        ShmCorruption::unless_in("active", view.superblock.generation..=MAX_COUNTER, active)?;
        view.active.buffer.check()?;
        let (sum, end) = view.sum_and_end(shared);
        ShmCorruption::unless_in("sum", sum..=sum, shared.seal())?;
        Ok(end)
    }

    /// Leaves the sum for the next holder of the lock. Returns `false` if the log's end in shared memory is not the one
    /// this holder left there.
    #[inline]
    pub(crate) fn leave_sum(&self) -> bool {
        if !self.writer.state.is_shared {
            return true;
        }
        self.view.leave_sum(self.writer.shared);
        let (expected, found) = (self.local.end, self.view.active.log_end());
        if expected == found {
            return true;
        }
        self.writer.handle.poison_shared(ShmCorruption {
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
        Err(self.writer.handle.poison_shared(ShmCorruption {
            word: "transaction",
            expected: format!("one of handle {}", self.writer.handle.number),
            got: state.into(),
        }))
    }

    /// Checks the states that claiming has met in the table, before the keys go into the log.
    #[inline]
    pub(crate) fn check_table(&self) -> Result<(), Error> {
        match self.view.active.buffer.nonsense() {
            None => Ok(()),
            Some(wrong) => Err(self.writer.handle.poison_shared(wrong)),
        }
    }

    /// Checks that the view shows the newest superblock, before a superblock that follows it is written or a log is
    /// closed for its layers. With outdated words, an outdated view seems to be current.
    pub(crate) fn check_view(&self) -> Result<(), Error> {
        let writer = self.writer;
        let newest = read_meta_of(&*writer.file.raw, &writer.file.place)?.superblock;
        let known = self.view.superblock.generation;
        ShmCorruption::unless_in("settled", newest.generation..=newest.generation, known)
            .map_err(|wrong| writer.handle.poison_shared(wrong))
    }

    /// Checks the current buffer, from whose size that of the next one follows.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        let sizes = self.writer.shared.buffer_sizes();
        let checked = sizes.expect(&self.view.active.buffer);
        checked.map_err(|wrong| self.writer.handle.poison_shared(wrong))
    }
}
