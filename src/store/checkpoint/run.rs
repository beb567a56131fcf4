//! Checkpoint: the keys of a closed log go into the pages, and the log goes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::buffer::{Buffer, Digest, Wrong};
use crate::error::{Error, Result};
use crate::file::superblock::{WRITERS_ROOM, writers_bytes};
use crate::file::{Layer, LayerPages, SectionKind, Superblock};
use crate::log::file::sync_parent;
use crate::log::{LogError, LogFile, RecordKind, log_path};
use crate::store::checkpoint::bloom_pass::{Sweep, Task};
use crate::store::checkpoint::counting_pass::Tally;
use crate::store::checkpoint::section_rewrite::{Inserted, Sectioning};
use crate::store::coordination::handle::Access;
use crate::store::coordination::shm_files::buffer_path;
use crate::store::coordination::shm_files::remove_if_there;
use crate::store::engine::Engine;
use crate::store::generation::Generation;
use crate::store::generation::count_stream::NetSource;
use crate::store::generation::hash_stream::KeySource;
use crate::store::generation::log_summary::{Scan, scan_sampling};
use crate::store::generation::sampling::Sampling;
use crate::store::storefile::meta::{Identity, read_identity};
use crate::sys::{RangeLock, lock, wait_until};

/// Held at a checkpoint.
struct AtCheckpoint<'a> {
    engine: &'a Engine,
    _file: Option<RangeLock>,
}

impl Drop for AtCheckpoint<'_> {
    fn drop(&mut self) {
        self.engine.shared.set_checkpointer(0);
        if std::thread::panicking() {
            let cause = std::io::Error::other("the thread at it panicked");
            let path = &self.engine.file.place;
            self.engine
                .handle
                .poison(Error::sync("finish the checkpoint of", path, cause));
        }
    }
}

impl Engine {
    /// Whether a closed generation waits for its checkpoint, or is at it.
    fn is_due(&self) -> bool {
        self.shared.settled() < self.shared.active()
    }

    /// Has the checkpoint that is due run on its own thread, where its failure is found by whoever
    /// needs it done; or here.
    pub(crate) fn start_checkpoint(&self) -> Result<()> {
        if self.options.background
            && let Some(engine) = self.itself.upgrade()
        {
            let thread = std::thread::Builder::new().name("everseen-checkpoint".to_owned());
            let spawned = thread.spawn(move || {
                // Another process that is at it needs no help.
                let _ = engine.settle_and(Duration::ZERO, false, |engine, settled| {
                    engine.buffers.make_spare(&settled);
                });
            });
            if let Ok(thread) = spawned {
                let mut threads = lock(&self.checkpoints.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                return Ok(());
            }
        }
        match self.settle_all(Duration::ZERO) {
            // Another process is at it.
            Err(Error::Busy { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    /// Sees that no checkpoint is due: waits for one that another handle is at, takes over from one
    /// that died at it, does it otherwise.
    pub(crate) fn settle_all(&self, patience: Duration) -> Result<()> {
        self.settle_and(patience, self.options.background, |_, _| {})
    }

    /// The same, and after a checkpoint of its own something else before the next one may begin. It is told
    /// of the generation that was settled. `awaited`: whether two threads may work at it.
    fn settle_and(
        &self,
        patience: Duration,
        awaited: bool,
        after: impl FnOnce(&Self, Weak<Generation>),
    ) -> Result<()> {
        self.handle.check_usable()?;
        if !self.is_due() {
            return Ok(());
        }
        let _one_thread = lock(&self.checkpoints.running);
        let file = if self.handle.access == Access::Shared {
            let mut taken = None;
            wait_until(patience, || {
                taken = self.handle.locks.try_checkpoint()?;
                Ok::<_, Error>(taken.is_some() || !self.is_due())
            })?;
            if taken.is_none() && self.is_due() {
                let process = self.shared.checkpointer();
                return Err(Error::Busy {
                    path: self.file.place.to_path_buf(),
                    what: "a checkpoint",
                    process: (process != 0).then_some(process),
                });
            }
            if taken.is_none() {
                return Ok(());
            }
            taken
        } else {
            None
        };
        if !self.is_due() {
            return Ok(());
        }
        let process = u64::from(std::process::id());
        self.shared.set_checkpointer(process);
        let _held = AtCheckpoint {
            engine: self,
            _file: file,
        };
        match self.settle(awaited) {
            // It can be tried again once the page is repaired, or by who knows what to do with it.
            Err(error @ Error::Format { .. }) => Err(error),
            outcome => {
                let settled = self.handle.poison_on_failure(outcome)?;
                after(self, settled);
                Ok(())
            }
        }
    }

    /// The checkpoint of the one generation that is due, by whoever has its lock.
    fn settle(&self, awaited: bool) -> Result<Weak<Generation>> {
        self.file.mend()?;
        // Else the pages would go to a file that nobody finds again, and the log that has them would be removed.
        self.handle.check_names(None)?;
        let number = self.shared.settled();
        let identity = read_identity(&*self.file.raw, &self.file.place)?;
        // Before anything is removed: the superblock tells which log has done its service.
        let newest = identity.superblock.generation;
        let told = Wrong::unless_in("settled", newest.saturating_sub(1)..=newest, number);
        told.map_err(|wrong| self.handle.distrust(wrong))?;
        // Whoever was at the one before may have died before it came to this. First: should this
        // end as suddenly, an opener looks for no more than one log that has done its service.
        self.remove_leftover(number.saturating_sub(1))?;
        let mut settled = Weak::new();
        if identity.superblock.generation == number {
            self.views.renew()?;
            let view = self.views.cell.load_full();
            let frozen = view.frozen.as_ref();
            let Some(frozen) = frozen.filter(|frozen| frozen.number() == number) else {
                return Ok(settled);
            };
            settled = Arc::downgrade(frozen);
            let log = Arc::clone(self.logs.of(frozen)?);
            frozen.sync_to(&log, frozen.buffer.tail().end)?;
            self.apply(&identity, &log, Some(&frozen.buffer), awaited)?;
        } else {
            // Who died here had come as far as the superblock, and perhaps not to its sync. It must
            // not be gone after a power cut, when the log that it makes needless has been removed.
            self.file.sync("sync the superblock of")?;
        }
        self.shared.set_settled(number + 1);
        self.views.renew()?;
        self.remove_generation(number);
        Ok(settled)
    }

    /// Moves the keys of a closed and durable log into the pages and makes the superblock that says
    /// so durable. Keys come from `buffer`, or from the log itself. `awaited`: whether two threads may work
    /// at it.
    pub(crate) fn apply(
        &self,
        identity: &Identity,
        log: &Arc<LogFile>,
        buffer: Option<&Buffer>,
        awaited: bool,
    ) -> Result<Superblock> {
        let old = &identity.superblock;
        let sampled = old.section(SectionKind::Sample);
        let sampling = sampled.map(|section| Sampling::of(&identity.header, section));
        let mut found = scan_sampling(log, &identity.header, sampling)?;
        let Some(cut) = found.cut.clone().filter(|cut| found.fits(cut, identity)) else {
            return Err(Error::Log {
                path: log.path.clone(),
                source: LogError::Unsealed { end: found.end.end },
            });
        };
        // The log is what was acknowledged. A buffer that does not hold the same was damaged.
        let exempt = found.exempt > 0 || old.section(SectionKind::Exempt).is_some();
        let agreed = buffer.filter(|buffer| self.agrees(buffer, &found, exempt));
        if agreed.is_none() && buffer.is_some() {
            let synced = log.file.sync();
            synced.map_err(|error| Error::sync("sync the log", &log.path, error))?;
        }
        let buffer = agreed;
        let mut layers = old.layers.clone();
        let count = found.committed_keys + found.removed;
        let keys = key_source(log, buffer, &found);
        if count > 0 {
            layers.truncate(cut.layer_index as usize);
            layers.push(cut.layer);
            self.make_room(cut.layer.end_offset())?;
        }
        // Before the pages: should there be no room for them, nothing has begun.
        let nets = match buffer {
            Some(buffer) => NetSource::Buffer(buffer),
            None => NetSource::Log { log, count },
        };
        let inserted = match self.file.is_counting() {
            true => Inserted::Nets(nets),
            false => Inserted::Keys(&keys),
        };
        let sectioning = Sectioning {
            engine: self,
            identity,
            generation: log.generation + 1,
            layers: &layers,
        };
        let sections = sectioning.after(log, &mut found, inserted)?;
        if count > 0 {
            let mut layer = cut.layer;
            let task = Task::new(identity, log.generation, cut.clone(), count, awaited);
            self.shared.set_torn(task.torn.clone());
            match self.file.is_counting() {
                true => self.tally(&task, nets, log, &found, &mut layer)?,
                false => self.sweep_all(&task, &keys, log, &found, &mut layer)?,
            }
            layers.pop();
            layers.push(layer);
            self.file.sync("sync the pages of")?;
            self.shared.window().publish(0..0);
            self.shared.set_torn(0..0);
        } else if sections != old.sections {
            self.file.sync("sync the sections of")?;
        }
        let mut commits = old.commits.clone();
        commits.extend(found.commits);
        if writers_bytes(&commits) > WRITERS_ROOM as u64 {
            return Err(Error::TooManyWriters {
                expected: WRITERS_ROOM,
                got: writers_bytes(&commits) as usize,
            });
        }
        let superblock = Superblock {
            sequence: old.sequence + 1,
            generation: log.generation + 1,
            log_expected: !cut.last,
            commit_sequence: old.commit_sequence.max(found.commit_sequence),
            commits,
            layers,
            sections,
        };
        // A map that can't be made is better known before than after.
        let held = &self.views.cell.load().layers;
        for (index, layer) in (0..).zip(&superblock.layers).skip(held.len()) {
            LayerPages::map(index, layer, &*self.file.raw)
                .map_err(|error| Error::io("map a layer of", &self.file.place, error))?;
        }
        self.file.write_superblock(&superblock)?;
        Ok(superblock)
    }

    /// Applies the keys of a generation to the pages of a layer; those of the log if others came from the buffer.
    fn sweep_all(
        &self,
        task: &Task,
        keys: &KeySource<'_>,
        log: &Arc<LogFile>,
        found: &Scan,
        layer: &mut Layer,
    ) -> Result<()> {
        let before = *layer;
        let taken = self.sweep(task, keys, layer)?;
        let is_sure = !matches!(keys, KeySource::Buffer(_)) || self.writer.lock.is_none();
        if is_sure || taken == found.digest {
            return Ok(());
        }
        // Bits are only ever added, so it can be done once more, as after an interruption.
        *layer = before;
        let identity = read_identity(&*self.file.raw, &self.file.place)?;
        let task = Task::new(
            &identity,
            task.generation,
            task.cut.clone(),
            task.count,
            task.awaited,
        );
        self.sweep(&task, &key_source(log, None, found), layer)?;
        Ok(())
    }

    /// Applies keys to the pages of a layer, and tells what they were.
    fn sweep(&self, task: &Task, keys: &KeySource<'_>, layer: &mut Layer) -> Result<Digest> {
        let mut sweep = Sweep::new(self, task, keys);
        // Until it is done again, there may be a torn page in what it named last.
        let swept = sweep
            .run()
            .inspect_err(|_| self.shared.set_torn(sweep.named()))?;
        layer.keys = layer.keys.saturating_add(swept.keys);
        layer.all_written |= swept.all_written;
        Ok(swept.taken)
    }

    /// Counts the inserts and removes of a generation in the pages of a counting store.
    fn tally(
        &self,
        task: &Task,
        nets: NetSource<'_>,
        log: &LogFile,
        found: &Scan,
        layer: &mut Layer,
    ) -> Result<()> {
        let mut tally = Tally::new(self, task)?;
        tally
            .run(
                nets,
                NetSource::Log {
                    log,
                    count: task.count,
                },
                found.digest,
            )
            .inspect_err(|_| self.shared.set_torn(tally.named()))?;
        let keys = layer.keys.saturating_add(found.committed_keys);
        layer.keys = keys.saturating_sub(found.removed);
        Ok(())
    }

    /// Whether the closed buffer holds what its log does, as far as that must be known before any of it is
    /// used, for exemptions. Of memory that nobody shares there is no doubt.
    pub(crate) fn agrees(&self, buffer: &Buffer, found: &Scan, has_exemptions: bool) -> bool {
        if self.writer.lock.is_none() {
            return true;
        }
        let digest = || match self.file.is_counting() {
            true => buffer.net_digest(0..=u64::MAX),
            false => buffer.digest(),
        };
        buffer.tail().end == found.end.end && (!has_exemptions || digest() == found.digest)
    }

    /// Makes the file long enough for a new layer.
    fn make_room(&self, end: u64) -> Result<()> {
        let failed = |error| Error::io("make room for a layer in", &self.file.place, error);
        if self.file.raw.length().map_err(failed)? < end {
            self.file.raw.set_length(end).map_err(failed)?;
        }
        Ok(())
    }

    /// Removes the log and the buffer of a generation that is past, if they are still there. The one
    /// who left them had made durable what makes them needless, and this does not lean on it.
    pub(crate) fn remove_leftover(&self, number: u64) -> Result<()> {
        let path = log_path(&self.file.place, number);
        let storage = &*self.options.storage;
        let there = storage.exists(&path).is_ok_and(|there| there);
        // Somebody may have put another store's there.
        let id = &self.file.header.store_id;
        if there && !LogFile::is_of_another(storage, &self.file.place, id, number) {
            self.file.sync("sync the superblock of")?;
            self.remove_generation(number);
        } else if self.handle.access == Access::Shared {
            let _ = remove_if_there(&self.file.place, &buffer_path(&self.file.place, number));
        }
        Ok(())
    }

    /// Log and buffer have done their service. A failure to remove them loses nothing: the next
    /// first opener finds that their generation is past and removes them.
    pub(crate) fn remove_generation(&self, number: u64) {
        let storage = &*self.options.storage;
        let path = log_path(&self.file.place, number);
        if storage.remove(&path).is_ok() {
            let _ = sync_parent(storage, &path);
        }
        if self.handle.access == Access::Shared {
            let _ = remove_if_there(&self.file.place, &buffer_path(&self.file.place, number));
        }
    }

    /// Waits for this handle's own threads.
    pub(crate) fn join_threads(&self) {
        let threads = std::mem::take(&mut *lock(&self.checkpoints.threads));
        for thread in threads {
            // A panic has poisoned the handle.
            let _ = thread.join();
        }
    }
}

fn key_source<'a>(log: &Arc<LogFile>, buffer: Option<&'a Buffer>, found: &Scan) -> KeySource<'a> {
    match buffer {
        Some(buffer) => KeySource::Buffer(buffer),
        None => KeySource::Log {
            log: Arc::clone(log),
            kind: RecordKind::Insert,
            committed: found.committed.clone(),
            count: found.committed_keys,
        },
    }
}
