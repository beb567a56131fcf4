//! Closing, at the latest when a session is dropped: the last handle empties log and buffer into the pages and leaves one file.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::config::open_options::OpenOptions;
use crate::engine::Engine;
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::view::ViewCell;
use crate::engine::write::Writer;
use crate::error::{Error, Result};
use crate::page_io::checkpoint_state::CheckpointState;
use crate::shm::coordination::{Coordination, shared_path};
use crate::shm::handle::{Access, Handle, Held};
use crate::shm::locks::OpenCloseLock;
use crate::shm::place::Place;
use crate::shm::shm_files::{buffer_path, clear_shared_memory, remove_if_there, remove_spare};
use crate::storefile::leftovers::remove_abandoned_drafts;
use crate::storefile::store_file::StoreFile;
use crate::sys::lock;
use std::ops::Deref;
use std::sync::Arc;

/// What closing a store has dropped; the result of [`Store::close`](crate::Store::close).
///
/// All zeros unless the store is transactional.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CloseReport {
    /// The number of keys that this handle had inserted or removed since its last commit. They never happened.
    pub dropped: u64,
    /// The number of keys that other handles had inserted or removed and not committed when they died, as far as this
    /// handle was the one to drop them, at any time since it was opened. A worker process that was killed leaves some.
    pub abandoned: u64,
}

/// Closes a handle.
pub(crate) struct Closer<'a> {
    options: &'a OpenOptions,
    handle: &'a Handle,
    shared: &'a Coordination,
    place: &'a Place,
    file: &'a StoreFile,
    views: &'a ViewCell,
    checkpoints: &'a CheckpointState,
    writer: Writer<'a>,
    checkpointer: Checkpointer<'a>,
}

impl<'a> Closer<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            options: &engine.options,
            handle: &engine.handle,
            shared: &engine.shared,
            place: &engine.file.place,
            file: &engine.file,
            views: &engine.views,
            checkpoints: &engine.checkpoints,
            writer: Writer::of(engine),
            checkpointer: Checkpointer::of(engine),
        }
    }

    /// Closes the handle. In a transactional store, uncommitted operations are dropped.
    pub(crate) fn close(&self) -> Result<CloseReport> {
        match self.close_once()? {
            true => Ok(CloseReport {
                dropped: lock(&self.writer.state.local).dropped,
                abandoned: self.writer.state.abandoned.load(Ordering::Relaxed),
            }),
            false => Ok(CloseReport::default()),
        }
    }

    /// Returns whether it is this call that has closed the handle.
    fn close_once(&self) -> Result<bool> {
        if !self.handle.is_own_for_certain() {
            return Err(Error::Forked);
        }
        if lock(&self.writer.state.local).closed {
            return match self.handle.check_usable() {
                Err(Error::Closed) => Ok(false),
                outcome => outcome.map(|()| false),
            };
        }
        if !self.handle.writes() {
            let known = self.views.cell.load().superblock.sequence;
            let named = self.file.expect_name(self.handle, known);
            self.end(None);
            return named.map(|()| true);
        }
        self.checkpointer.expect_no_own_copy()?;
        let _closing = self.checkpoints.note_closing();
        self.checkpoints.join_threads();
        if let Err(error) = self.handle.check_usable() {
            // Other handles go on: they recover from what is durable.
            self.give_up();
            return Err(error);
        }
        let gate =
            OpenCloseLock::enter_again(self.place, self.handle.locks.id(), self.options.timeout);
        let gate = match self.handle.poison_on_failure(gate) {
            Ok(gate) => gate,
            Err(error) => {
                if self.handle.is_poisoned() {
                    self.give_up();
                }
                return Err(error);
            }
        };
        let Some(held) = lock(&self.handle.held).take() else {
            // Another thread is closing it.
            return Ok(false);
        };
        let outcome = match self.handle.access {
            Access::Alone => self.close_last(held),
            _ => self.close_shared(held),
        };
        drop(gate);
        outcome.map(|()| true)
    }

    fn close_shared(&self, held: Held) -> Result<()> {
        // Under the open/close lock, no other handle joins meanwhile.
        if held.presence.become_alone()? {
            return self.close_last(held);
        }
        let left = self.leave();
        self.end(Some(held));
        left
    }

    /// Leaves the store to the other handles.
    fn leave(&self) -> Result<()> {
        let mut guard = self.writer.lock_to_close()?;
        // From here on no other thread gets the lock: its claims would belong to no handle.
        guard.local.closing = true;
        guard.abort_own();
        if self.writer.file.header.transactional {
            // So that the report knows of children that were killed. If it can't be known who lives, others find out.
            let _ = guard.reap_dead_handles();
        }
        guard.slot().set_handle(0);
        drop(guard);
        // Another thread may have started a checkpoint since.
        self.checkpoints.join_threads();
        Ok(())
    }

    fn close_last(&self, held: Held) -> Result<()> {
        match self.finish() {
            Ok(()) => {
                // The handle that settled the last generation may have died before it removed the log. With nothing
                // written since, no later checkpoint has removed it. If the log stays, the next opener removes it.
                let newest = self.views.cell.load().superblock.generation;
                let _ = self.checkpointer.remove_leftover(newest.saturating_sub(1));
                self.remove_shared_memory();
                remove_abandoned_drafts(self.place);
                self.end(Some(held));
                Ok(())
            }
            // Nothing acknowledged is lost. Once there is room the handle can be closed.
            Err(error @ (Error::NoSpace { .. } | Error::Busy { .. })) => {
                if self.handle.access == Access::Shared {
                    held.presence.share()?;
                }
                *lock(&self.handle.held) = Some(held);
                Err(error)
            }
            Err(error) => {
                self.remove_buffers_of_last(&held);
                self.end(Some(held));
                Err(error)
            }
        }
    }

    /// Ends a handle that can't be closed in order. What it acknowledged is in the logs.
    pub(crate) fn give_up(&self) {
        let held = lock(&self.handle.held).take();
        let gate = OpenCloseLock::enter_again(self.place, self.handle.locks.id(), Duration::ZERO);
        if let (Some(held), Ok(_gate)) = (&held, gate) {
            self.remove_buffers_of_last(held);
        }
        self.end(held);
    }

    /// Removes the shared memory of a handle that can't go on, if it is the last one: it may be all that fills the disk, and
    /// the next handle to open the store removes it unread in any case. The caller holds the open/close lock.
    fn remove_buffers_of_last(&self, held: &Held) {
        if self.handle.access == Access::Shared && matches!(held.presence.become_alone(), Ok(true))
        {
            self.shared.leave_session();
            let id = &self.writer.file.header.store_id;
            let _ = clear_shared_memory(self.place, Some(id));
        }
    }

    /// Moves everything that counts into the pages.
    fn finish(&self) -> Result<()> {
        let mut guard = self.writer.lock_to_close()?;
        guard.local.closing = true;
        guard.abort_own();
        guard.take_up_log()?;
        guard.seal_active(true)?;
        drop(guard);
        self.checkpoints.join_threads();
        self.checkpointer.checkpoint_all(self.options.timeout)?;
        self.checkpointer.compact()
    }

    fn remove_shared_memory(&self) {
        self.shared.set_ended();
        // No other handle is there, and this one holds the open/close lock. Files that can't be removed are never
        // trusted later.
        if self.handle.access == Access::Shared {
            let active = self.views.cell.load().active.number();
            let _ = remove_if_there(self.place, &buffer_path(self.place, active));
            let _ = remove_spare(self.place);
            let _ = remove_if_there(self.place, &shared_path(self.place));
        }
    }

    fn mark_closed(&self) {
        lock(&self.writer.state.local).closed = true;
        self.handle.mark_closed();
    }

    fn end(&self, held: Option<Held>) {
        self.mark_closed();
        // A closed handle that is not dropped must not keep the last one from cutting the file off.
        drop(self.views.give_up_maps());
        drop(held);
        drop(lock(&self.handle.reading).take());
        self.shared.leave_session();
    }
}

/// An engine that is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Session(Arc<Engine>);

impl Session {
    pub(crate) fn of(engine: Arc<Engine>) -> Self {
        Self(engine)
    }

    pub(crate) fn close(&self) -> Result<CloseReport> {
        Closer::of(&self.0).close()
    }
}

impl Deref for Session {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.0.handle.is_own_for_certain() {
            // The locks are the parent's; a drop would release them.
            std::mem::forget(Arc::clone(&self.0));
        } else if !std::thread::panicking() {
            // A panic may have struck in the middle of anything: the log must then suffice.
            if self.close().is_err() {
                // It can't be tried again. The others, or the next one, go on.
                Closer::of(&self.0).give_up();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::testing::{LEAST_BUFFER, Options};

    const HUNG: Duration = Duration::from_secs(60);

    /// Nobody would use it, and closing would wait until it is full of zeros.
    #[test]
    fn a_checkpoint_that_closing_waits_for_makes_no_buffer_ahead() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(1_000_000).buffer(LEAST_BUFFER);
        let store = options.exclusive(true).create(folder.path().join("store"));
        let store = store.unwrap();
        let engine = &store.engine;
        let held = Checkpointer::of(engine).hold_off().unwrap();
        let first = engine.shared.active();
        let new = (0..).take_while(|_| engine.shared.active() == first);
        new.for_each(|key| assert!(store.insert(key).unwrap()));
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| Closer::of(engine).close());
            let begun = Instant::now();
            while !engine.checkpoints.is_closing() && begun.elapsed() < HUNG {
                std::thread::yield_now();
            }
            drop(held);
            closing.join().unwrap().unwrap();
        });
        assert_eq!(engine.shared.checkpointed(), engine.shared.active());
        assert!(lock(&engine.buffers.spare).is_none());
    }

    /// `verify` may read for minutes. What nothing has come to has nothing to write, and its file may stay as long as it is.
    #[test]
    fn closing_does_not_fail_beside_one_who_reads_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().buffer(LEAST_BUFFER);
        let store = options.clone().create(&path).unwrap();
        store.insert(b"key").unwrap();
        store.close().unwrap();
        let reader = options.clone().open_read_only(&path).unwrap();
        let held = Checkpointer::of(&reader.engine).hold_off().unwrap();
        let store = options.timeout(Duration::from_secs(3)).open(&path).unwrap();
        assert!(!store.insert(b"key").unwrap());
        store.close().unwrap();
        drop(held);
        reader.close().unwrap();
    }
}
