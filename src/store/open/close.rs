//! Closing: the last one out empties log and buffer into the pages and leaves one file.

use crate::error::{Error, Result};
use crate::store::checkpoint::run::Checkpointer;
use crate::store::coordination::handle::Access;
use crate::store::coordination::handle::Held;
use crate::store::coordination::locks::Gate;
use crate::store::coordination::shm::shared_path;
use crate::store::coordination::shm_files::buffer_path;
use crate::store::coordination::shm_files::remove_if_there;
use crate::store::coordination::shm_files::remove_spare;
use crate::store::engine::Engine;
use crate::store::write::Writer;
use crate::sys::lock;

/// Closes a handle.
pub(crate) struct Closer<'a> {
    engine: &'a Engine,
}

impl<'a> Closer<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self { engine }
    }

    /// Ends the handle. What it has not committed in a transactional store is dropped.
    pub(crate) fn close(&self) -> Result<()> {
        if !self.engine.handle.is_own_for_certain() {
            return Err(Error::Forked);
        }
        if lock(&self.engine.writer.local).closed {
            return match self.engine.handle.check_usable() {
                Err(Error::Closed) => Ok(()),
                outcome => outcome,
            };
        }
        if !self.engine.handle.writes() {
            self.end(None);
            return Ok(());
        }
        self.engine.checkpoints.join_threads();
        if let Err(error) = self.engine.handle.check_usable() {
            // What can't go on lets others go on: they recover from what is durable.
            self.end(lock(&self.engine.handle.held).take());
            return Err(error);
        }
        let gate = Gate::enter_again(
            &self.engine.file.place,
            self.engine.handle.locks.id(),
            self.engine.options.timeout,
        );
        let gate = match self.engine.handle.poison_on_failure(gate) {
            Ok(gate) => gate,
            Err(error) => {
                if self.engine.handle.is_poisoned() {
                    self.end(lock(&self.engine.handle.held).take());
                }
                return Err(error);
            }
        };
        let Some(held) = lock(&self.engine.handle.held).take() else {
            // Another thread closes it.
            return Ok(());
        };
        let outcome = match self.engine.handle.access {
            Access::Alone => self.close_last(held),
            _ => self.close_shared(held),
        };
        drop(gate);
        outcome
    }

    fn close_shared(&self, held: Held) -> Result<()> {
        // Inside the gate: nobody comes meanwhile.
        if held.presence.become_alone()? {
            return self.close_last(held);
        }
        let left = self.leave();
        self.end(Some(held));
        left
    }

    /// Leaves the store to the others.
    fn leave(&self) -> Result<()> {
        let mut writing = Writer::of(self.engine).lock_to_close()?;
        // Other threads come no more: what they claimed from here on would be nobody's.
        writing.local.closing = true;
        writing.abort_own();
        writing.slot().set_handle(0);
        drop(writing);
        // One that another thread has started since.
        self.engine.checkpoints.join_threads();
        Ok(())
    }

    fn close_last(&self, held: Held) -> Result<()> {
        match self.finish() {
            Ok(()) => {
                // Whoever settled the last generation may have died before it removed the log, and
                // with nothing written since there was no checkpoint after it to do so. Should it
                // stay, the next opener removes it.
                let newest = self.engine.views.cell.load().superblock.generation;
                let _ = Checkpointer::of(self.engine).remove_leftover(newest.saturating_sub(1));
                self.remove_shared_memory();
                self.end(Some(held));
                Ok(())
            }
            // Nothing acknowledged is lost. Once there is room the handle can be closed.
            Err(error @ (Error::NoSpace { .. } | Error::Busy { .. })) => {
                if self.engine.handle.access == Access::Shared {
                    held.presence.share()?;
                }
                *lock(&self.engine.handle.held) = Some(held);
                Err(error)
            }
            Err(error) => {
                self.end(Some(held));
                Err(error)
            }
        }
    }

    /// Moves everything that counts into the pages.
    fn finish(&self) -> Result<()> {
        let mut writing = Writer::of(self.engine).lock_to_close()?;
        writing.local.closing = true;
        writing.abort_own();
        writing.take_up_log()?;
        writing.seal_active(true)?;
        drop(writing);
        self.engine.checkpoints.join_threads();
        Checkpointer::of(self.engine).settle_all(self.engine.options.timeout)
    }

    fn remove_shared_memory(&self) {
        self.engine.shared.set_ended();
        // Nobody else is there and the gate is ours. What can't be removed is never believed.
        if self.engine.handle.access == Access::Shared {
            let active = self.engine.views.cell.load().active.number();
            let _ = remove_if_there(
                &self.engine.file.place,
                &buffer_path(&self.engine.file.place, active),
            );
            let _ = remove_spare(&self.engine.file.place);
            let _ = remove_if_there(
                &self.engine.file.place,
                &shared_path(&self.engine.file.place),
            );
        }
    }

    fn mark_closed(&self) {
        lock(&self.engine.writer.local).closed = true;
        self.engine.handle.mark_closed();
    }

    fn end(&self, held: Option<Held>) {
        self.mark_closed();
        drop(held);
        drop(lock(&self.engine.handle.reading).take());
        self.engine.shared.leave_session();
    }
}
