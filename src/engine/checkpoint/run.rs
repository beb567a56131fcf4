//! When a checkpoint runs and which thread runs it: at once or on a thread of its own, after another handle's or in its
//! place.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::config::open_options::OpenOptions;
use crate::engine::Engine;
use crate::engine::checkpoint::apply::LogApplier;
use crate::engine::view::ViewCell;
use crate::engine::writer_state::WriterState;
use crate::error::{Error, Result};
use crate::filter::checkpoint as filter;
use crate::generation::Generation;
use crate::generation::log_files::LogFiles;
use crate::memtable::ShmCorruption;
use crate::page_io::PageAccess;
use crate::page_io::checkpoint_state::{CheckpointState, ExcludedThreads};
use crate::page_io::checkpoint_trigger::CheckpointTrigger;
use crate::prefetch::hints::LookupHints;
use crate::shm::coordination::Coordination;
use crate::shm::handle::{Access, Handle};
use crate::shm::locks::{DYING, Intention};
use crate::shm::shm_files::{buffer_path, remove_if_there};
use crate::storefile::store_file::StoreFile;
use crate::sys::{AddressSpace, RangeLock, wait_until};
use crate::wal::file::sync_parent;
use crate::wal::{LogFile, log_path};

/// How long the last handle waits at closing for look-ups that are under way.
const LOOK_UP_PATIENCE: Duration = Duration::from_secs(1);

/// Runs the checkpoints of an open store, and holds them off.
#[derive(Clone, Copy)]
pub(crate) struct Checkpointer<'a> {
    pub(crate) options: &'a OpenOptions,
    pub(crate) handle: &'a Handle,
    pub(crate) shared: &'a Coordination,
    pub(crate) file: &'a StoreFile,
    pub(crate) logs: &'a LogFiles,
    pub(crate) views: &'a ViewCell,
    pub(crate) writer: &'a WriterState,
    pub(crate) hints: &'a LookupHints,
    pub(crate) state: &'a CheckpointState,
    /// Only for the checkpoint's thread, which must keep the engine alive.
    pub(crate) engine: &'a Weak<Engine>,
}

/// Held by the thread that runs a checkpoint.
struct Running<'a> {
    checkpointer: Checkpointer<'a>,
    _one_process: Option<RangeLock>,
    _one_thread: ExcludedThreads<'a>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Checkpointer {
            shared,
            handle,
            file,
            state,
            ..
        } = self.checkpointer;
        shared.set_checkpointer(0);
        state.set_running(false);
        if std::thread::panicking() {
            let cause = std::io::Error::other("the thread at it panicked");
            handle.poison(Error::sync("finish the checkpoint of", &file.place, cause));
        }
    }
}

/// While this is held, no handle runs a checkpoint.
pub(crate) struct HeldOff<'a> {
    _one_process: Option<RangeLock>,
    _one_thread: ExcludedThreads<'a>,
}

impl<'a> Checkpointer<'a> {
    #[inline]
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            options: &engine.options,
            handle: &engine.handle,
            shared: &engine.shared,
            file: &engine.file,
            logs: &engine.logs,
            views: &engine.views,
            writer: &engine.writer,
            hints: &engine.hints,
            state: &engine.checkpoints,
            engine: &engine.itself,
        }
    }

    pub(crate) fn applier(&self) -> LogApplier<'a> {
        LogApplier {
            access: PageAccess {
                options: self.options,
                file: self.file,
                shared: self.shared,
                hints: self.hints,
                state: self.state,
            },
            views: self.views,
            is_private: !self.writer.is_shared,
        }
    }

    /// Runs the checkpoint that is due: on its own thread, where callers that need it done find its failure, or here.
    pub(crate) fn start_checkpoint(&self) -> Result<()> {
        // Without the memory for a stack, and for one more buffer, the caller waits.
        if self.options.background
            && !AddressSpace::is_tight()
            && let Some(engine) = self.engine.upgrade()
        {
            let thread = std::thread::Builder::new().name("everseen-checkpoint".to_owned());
            // After a small one, the session may end before the next is full.
            let sealed = &self.views.cell.load().sealed;
            let was_small = sealed
                .as_ref()
                .is_some_and(|sealed| engine.buffers.is_small(&sealed.buffer));
            let spawned = thread.spawn(move || {
                // The last handle to close would wait until a gigabyte is full of zeros.
                let is_wanted = || {
                    let is_last = engine.checkpoints.is_closing()
                        && !engine.shared.has_others(engine.handle.slot);
                    !was_small && !is_last
                };
                let make_spare = |checkpointed| {
                    let demand = engine.views.cell.load().demand();
                    engine.buffers.make_spare(&checkpointed, demand, is_wanted);
                };
                let checkpointer = Checkpointer::of(&engine);
                // A checkpoint that another process runs needs no help.
                let _ = checkpointer.checkpoint_and(
                    Duration::ZERO,
                    CheckpointTrigger::FullBuffer,
                    make_spare,
                );
            });
            if let Ok(thread) = spawned {
                self.state.add_thread(thread);
                return Ok(());
            }
        }
        match self.checkpoint_and(Duration::ZERO, CheckpointTrigger::FullBuffer, drop) {
            // Another process is running it.
            Err(Error::Busy { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    /// Returns whether a closed generation waits for its checkpoint, or is being checkpointed.
    fn is_due(&self) -> bool {
        self.shared.checkpointed() < self.shared.active()
    }

    /// Makes sure that no checkpoint is due: waits for one that another handle runs, takes over from a handle that died
    /// during one, or else runs it.
    pub(crate) fn checkpoint_all(&self, patience: Duration) -> Result<()> {
        let _waiting = self.state.wait();
        self.checkpoint_and(patience, CheckpointTrigger::Awaited, drop)
    }

    /// Like `checkpoint_all`. If this call ran the checkpoint, `after` runs with the settled generation before the lock is
    /// released.
    fn checkpoint_and(
        &self,
        patience: Duration,
        trigger: CheckpointTrigger,
        after: impl FnOnce(Weak<Generation>),
    ) -> Result<()> {
        self.handle.check_usable()?;
        if !self.is_due() {
            return Ok(());
        }
        let Some(_running) = self.begin(patience)? else {
            return Ok(());
        };
        match self.settle(trigger) {
            // The checkpoint can be retried once the page is repaired, or by a handle with another policy.
            Err(error @ Error::Format { .. }) => Err(error),
            outcome => {
                let checkpointed = self.handle.poison_on_failure(outcome)?;
                after(checkpointed);
                Ok(())
            }
        }
    }

    /// Takes the checkpoint lock; `None` if no checkpoint is due any more.
    fn begin(&self, patience: Duration) -> Result<Option<Running<'a>>> {
        let one_thread = match patience.is_zero() {
            // A caller without time must not wait for a copy that another thread makes.
            true => self
                .state
                .try_exclude_threads()
                .ok_or_else(|| self.busy())?,
            false => self.exclude_threads()?,
        };
        let mut one_process = None;
        if self.handle.access == Access::Shared {
            wait_until(patience, || {
                one_process = self.handle.locks.try_checkpoint()?;
                Ok::<_, Error>(one_process.is_some() || !self.is_due())
            })?;
            if one_process.is_none() && self.is_due() {
                let process = self.shared.checkpointer();
                return Err(Error::Busy {
                    path: self.file.place.to_path_buf(),
                    what: "a checkpoint",
                    process: (process != 0).then_some(process),
                });
            }
            if one_process.is_none() {
                return Ok(None);
            }
        }
        if !self.is_due() {
            return Ok(None);
        }
        assert!(self.handle.access != Access::Shared || one_process.is_some());
        // The file of a handle that reads is not its own to change (I5).
        assert!(self.handle.writes(), "a checkpoint by a reader");
        let process = u64::from(std::process::id());
        self.shared.set_checkpointer(process);
        self.state.set_running(true);
        Ok(Some(Running {
            checkpointer: *self,
            _one_process: one_process,
            _one_thread: one_thread,
        }))
    }

    /// Runs the checkpoint of the one generation that is due. The caller holds the checkpoint lock.
    fn settle(&self, trigger: CheckpointTrigger) -> Result<Weak<Generation>> {
        self.file.repair_sync()?;
        // Otherwise the pages would go to a file that has lost its name, and the log that holds the keys would be
        // removed.
        self.handle.check_names(None)?;
        let number = self.shared.checkpointed();
        let meta = self.file.read_meta()?;
        // Check this before anything is removed: the superblock says which log is no longer needed.
        let newest = meta.superblock.generation;
        let checked =
            ShmCorruption::unless_in("settled", newest.saturating_sub(1)..=newest, number);
        checked.map_err(|wrong| self.handle.poison_shared(wrong))?;
        // A process may have died during the previous checkpoint before it removed its log. Remove that log first: if
        // this process dies too, an opener must look for at most one log that is no longer needed.
        self.remove_leftover(number.saturating_sub(1))?;
        let mut checkpointed = Weak::new();
        if meta.superblock.generation == number {
            self.views.renew()?;
            // The view goes: its map would count twice while the steps of the checkpoint make others.
            let sealed = self.views.cell.load().sealed.clone();
            let Some(sealed) = sealed.filter(|sealed| sealed.number() == number) else {
                return Ok(checkpointed);
            };
            checkpointed = Arc::downgrade(&sealed);
            let log = Arc::clone(self.logs.of(&sealed)?);
            sealed.sync_to(&log, sealed.buffer.tail().end)?;
            let buffer = Some(&sealed.buffer);
            let published = self.applier().apply(&meta, &log, buffer, trigger)?;
            // From the next line on its log may be removed.
            assert_eq!(published.generation, number + 1);
        } else {
            // A process that died here had written the superblock, but perhaps not synced it, or in vain: then a sync of
            // this process proves nothing about it. The superblock must not be lost in a power cut once the log that it
            // replaces has been removed.
            self.file.write_superblock(&meta.superblock)?;
        }
        self.shared.set_checkpointed(number + 1);
        self.views.renew()?;
        self.remove_generation(number);
        Ok(checkpointed)
    }

    /// Moves a closed log that does not fit in memory into the pages. The caller opens the store as the first handle,
    /// before others can join.
    pub(crate) fn checkpoint_from_log(&self, log: &Arc<LogFile>) -> Result<()> {
        let meta = self.file.read_meta()?;
        let synced = log.file.sync();
        synced.map_err(|error| Error::sync("sync the log", &log.path, error))?;
        let applier = self.applier();
        let published = applier.apply(&meta, log, None, CheckpointTrigger::Awaited)?;
        assert_eq!(published.generation, log.generation + 1);
        self.shared.set_checkpointed(log.generation + 1);
        self.views.renew()?;
        self.remove_generation(log.generation);
        Ok(())
    }

    /// Makes the file as short as it can be, where the kind's files shrink. The caller is the last handle and has checkpointed
    /// everything. Room that can't be given back is no failure: the next session uses it.
    pub(crate) fn compact(&self) -> Result<()> {
        let Some(compaction) = filter::compaction(self.applier().access) else {
            return Ok(());
        };
        // It writes pages, as a checkpoint does (I5).
        assert!(self.handle.writes(), "pages moved by a reader");
        // Others may read all of the store for minutes: then the file stays as it is, and the next session compacts it.
        let held_off = match self.hold_off_within(DYING.min(self.options.timeout)) {
            Err(Error::Busy { .. }) => return Ok(()),
            held_off => held_off?,
        };
        let compacted = compaction.run();
        match compacted {
            Err(Error::NoSpace { .. }) => return Ok(()),
            outcome => self.handle.poison_on_failure(outcome)?,
        }
        if let Some(lease) = self.views.give_up_maps()
            && let Ok(Some(_no_maps)) = lease.become_only(LOOK_UP_PATIENCE)
        {
            let _ = compaction.cut_off();
        }
        drop(held_off);
        Ok(())
    }

    /// Keeps all handles from running checkpoints, and waits for one that is running.
    pub(crate) fn hold_off(&self) -> Result<HeldOff<'a>> {
        self.hold_off_within(self.options.timeout)
    }

    /// Does the same, and waits for other processes no longer than this.
    fn hold_off_within(&self, patience: Duration) -> Result<HeldOff<'a>> {
        let one_thread = self.exclude_threads()?;
        Ok(HeldOff {
            _one_process: self.exclude_processes(patience)?,
            _one_thread: one_thread,
        })
    }

    fn exclude_threads(&self) -> Result<ExcludedThreads<'a>> {
        let excluded = self.state.exclude_threads();
        excluded.ok_or_else(|| self.own_copy())
    }

    /// Fails if this thread is making a copy, or reads all of the store, and calls back its caller: what waits for that
    /// would wait for itself.
    pub(crate) fn expect_no_own_copy(&self) -> Result<()> {
        match self.state.is_excluding() {
            true => Err(self.own_copy()),
            false => Ok(()),
        }
    }

    fn own_copy(&self) -> Error {
        Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "a copy or a check that this thread is making, which waits for its callback",
            process: None,
        }
    }

    fn exclude_processes(&self, patience: Duration) -> Result<Option<RangeLock>> {
        if self.handle.access == Access::Alone {
            return Ok(None);
        }
        let intention = match self.handle.writes() {
            true => Intention::Write,
            false => Intention::Read,
        };
        let taken = self
            .handle
            .locks
            .hold_checkpoints_off(intention, patience)?;
        if taken.is_some() {
            return Ok(taken);
        }
        Err(self.busy())
    }

    fn busy(&self) -> Error {
        Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "a checkpoint",
            process: None,
        }
    }

    /// Removes the log and the buffer of a past generation, if they are still there. What replaces them should be
    /// durable by now, but this does not rely on it.
    pub(crate) fn remove_leftover(&self, number: u64) -> Result<()> {
        let path = log_path(&self.file.place, number);
        let storage = &*self.options.storage;
        let there = storage.exists(&path).is_ok_and(|there| there);
        if there && !self.is_of_another(number) {
            self.file.sync("sync the superblock of")?;
            self.remove_generation(number);
        } else if self.handle.access == Access::Shared {
            let _ = remove_if_there(&self.file.place, &buffer_path(&self.file.place, number));
        }
        Ok(())
    }

    /// Returns whether the name of a log leads to one of another store: one that was put there, or that has got the name of this
    /// store since. The buffer of that generation may be the other's, too.
    fn is_of_another(&self, number: u64) -> bool {
        let id = &self.file.header.store_id;
        LogFile::is_of_another(&*self.options.storage, &self.file.place, id, number)
    }

    /// Removes a log and a buffer that are no longer needed. A failure to remove them loses nothing: the next first
    /// opener finds that their generation is past and removes them.
    fn remove_generation(&self, number: u64) {
        if self.is_of_another(number) {
            return;
        }
        let storage = &*self.options.storage;
        let path = log_path(&self.file.place, number);
        if storage.remove(&path).is_ok() {
            let _ = sync_parent(storage, &path);
        }
        if self.handle.access == Access::Shared {
            let _ = remove_if_there(&self.file.place, &buffer_path(&self.file.place, number));
        }
    }
}
