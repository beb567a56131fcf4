//! The writer lock: taking it, what its holder may do with the active log, and releasing it.

use std::sync::{Arc, MutexGuard};

use arc_swap::Guard;

use crate::buffer::Wrong;
use crate::error::{Error, Result};
use crate::log::LogWriter;
use crate::store::coordination::biased_lock::BiasedLock;
use crate::store::coordination::locks::lock_error;
use crate::store::coordination::shm::{DAMAGED, HandleSlot};
use crate::store::engine::writer_state::Local;
use crate::store::view::View;
use crate::store::write::Writer;
use crate::sys::{LockFile, lock};

/// The held writer lock. It has one holder across all threads and processes.
pub(crate) struct WriteGuard<'a> {
    pub(crate) writer: &'a Writer<'a>,
    pub(crate) local: MutexGuard<'a, Local>,
    /// Stays current while the lock is held, except that a checkpoint may finish.
    pub(crate) view: Guard<Arc<View>>,
    excluded: Excluded<'a>,
    /// Nothing is left half done. If this is false, the next holder takes over as after a death.
    pub(crate) sound: bool,
}

/// The lock that excludes other writers.
enum Excluded<'a> {
    /// None: the handle is exclusive.
    Alone,
    BiasedLock(BiasedLock<'a>),
    File(&'a LockFile),
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        // A handle that can't go on leaves its work as if it had died, and the next holder takes over.
        if self.sound
            && !self.writer.handle.is_poisoned()
            && !std::thread::panicking()
            && self.leave_sum()
        {
            self.writer.shared.set_changing(0);
        }
        match self.excluded {
            Excluded::Alone => {}
            Excluded::BiasedLock(bias) => bias.leave(),
            Excluded::File(file) => file.unlock(),
        }
    }
}

impl<'a> Writer<'a> {
    /// Takes the writer lock.
    #[inline]
    pub(crate) fn lock(&'a self) -> Result<WriteGuard<'a>> {
        let local = self.state.waits.mutex(&self.state.local);
        self.handle.check_usable()?;
        if local.closed || local.closing {
            return Err(Error::Closed);
        }
        self.lock_with(local)
    }

    /// Takes the writer lock to close the handle, even if an earlier close failed.
    pub(crate) fn lock_to_close(&'a self) -> Result<WriteGuard<'a>> {
        self.lock_with(lock(&self.state.local))
    }

    #[inline]
    fn lock_with(&'a self, mut local: MutexGuard<'a, Local>) -> Result<WriteGuard<'a>> {
        if self.state.biased {
            let is_revoked = self.shared.bias().is_revoked();
            if local.revoked && !is_revoked {
                // Another handle could take the lock at the same time.
                return Err(self.handle.distrust(Wrong {
                    word: "revoked",
                    expected: "1".to_owned(),
                    got: 0,
                }));
            }
            local.revoked = is_revoked;
        }
        let excluded = self.exclude_writers()?;
        self.state.waits.count();
        let died = self.shared.changing();
        let is_damaged = self.shared.poisoned() == DAMAGED;
        let mut guard = WriteGuard {
            writer: self,
            local,
            view: self.views.cell.load(),
            excluded,
            sound: false,
        };
        if is_damaged {
            self.handle.check_usable()?;
        }
        if died != 0 {
            let taken_over = self.take_over();
            self.handle.poison_on_failure(taken_over)?;
        }
        guard.refresh()?;
        if died != 0 {
            guard.view.leave_sum(self.shared);
        }
        guard.check_memory()?;
        guard.sound = true;
        self.shared.set_changing(self.handle.number);
        Ok(guard)
    }

    /// Returns whether no other handle writes, as far as this one can tell without the lock.
    pub(crate) fn is_sole_writer(&self) -> bool {
        self.state.lock.is_none() || self.state.biased && !self.shared.bias().is_revoked()
    }

    fn exclude_writers(&self) -> Result<Excluded<'a>> {
        let Some(file) = &self.state.lock else {
            return Ok(Excluded::Alone);
        };
        let bias = self.shared.bias();
        if self.state.biased && bias.enter(self.handle.number) {
            return Ok(Excluded::BiasedLock(bias));
        }
        let taken = self.state.waits.exclusive(file, self.options.timeout);
        if taken.map_err(lock_error(&self.file.place))? {
            return Ok(Excluded::File(file));
        }
        let holder = self.shared.slot_of(self.shared.changing());
        Err(Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "the writer lock",
            process: holder.map(|slot| self.shared.slot(slot).process()),
        })
    }
}

impl<'a> WriteGuard<'a> {
    /// Makes the view current. Other writers are excluded, so only checkpoints can change it meanwhile.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let views = self.writer.views;
        if !self.view.is_current(self.writer.shared) {
            views.renew()?;
            self.view = views.cell.load();
        }
        Ok(())
    }

    /// Returns this handle's slot in the shared memory.
    pub(crate) fn slot(&self) -> HandleSlot<'a> {
        self.writer.shared.slot(self.writer.handle.seat)
    }

    /// Announces this handle in the active log, if it has not done so yet.
    pub(crate) fn announce(&mut self) -> Result<()> {
        if self.local.announced == self.view.active.number() {
            return Ok(());
        }
        self.append(|log, handle| log.open(handle))?;
        self.set_applied();
        self.local.announced = self.view.active.number();
        Ok(())
    }

    /// Records that the buffer holds everything in the log.
    pub(crate) fn set_applied(&self) {
        self.view.active.buffer.set_applied(self.local.end.end);
    }

    /// Appends to the active log in this handle's name.
    #[inline]
    pub(crate) fn append(
        &mut self,
        write: impl FnOnce(&mut LogWriter<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        let (logs, handle) = (self.writer.logs, self.writer.handle);
        let active = &self.view.active;
        let log = logs.of(active)?;
        let Local { end, scratch, .. } = &mut *self.local;
        let outcome = active.append(log, end, scratch, |log| write(log, handle.number));
        handle.poison_on_failure(outcome)
    }

    /// Appends a record that holds no key, and creates a log if there is none.
    pub(crate) fn append_noted(
        &mut self,
        write: impl FnOnce(&mut LogWriter<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        if !self.view.active.has_log() {
            self.start_log()?;
        }
        self.announce()?;
        self.append(write)?;
        self.set_applied();
        Ok(())
    }
}
