//! Rotation: seals the active generation and activates the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::open_options::OpenOptions;
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::write::Writer;
use crate::engine::write::guard::WriteGuard;
use crate::engine::writer_state::CountedIn;
use crate::error::Result;
use crate::filter::checkpoint::target_of;
use crate::generation::Generation;
use crate::generation::buffer_pool::Demand;
use crate::shm::coordination::MAX_HANDLES;
use crate::shm::store_clock::LogFor;
use crate::storefile::meta::room_after;
use crate::wal::Cut;
use crate::wal::file::RECORDS_OFFSET;

/// A log of this many times the buffer's bytes is closed early.
const LONG_LOG_BUFFERS: u64 = 4;
/// A log shorter than this is never closed early.
const LEAST_LONG_LOG: u64 = 1 << 20;

/// How often all runs are tried to be merged while other handles run the checkpoints.
const MOST_FULL_MERGES: u32 = 100;

/// Why a log is closed.
struct Sealing {
    /// The store is closing.
    last: bool,
    /// To drop what is forgotten.
    forgets: bool,
    /// What the next one is for.
    next: LogFor,
}

impl Writer<'_> {
    /// Moves everything committed into the pages, and waits until it is there.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.seal_and_checkpoint(self.options, |guard| match guard.may_forget() {
            true => guard.seal_forgetting(),
            false => guard.seal_active(false),
        })
    }

    /// Moves everything committed into the pages, without dropping what is forgotten there.
    pub(crate) fn checkpoint_logs(&self) -> Result<()> {
        self.seal_and_checkpoint(self.options, |guard| guard.seal_active(false))
    }

    /// Moves everything committed into the pages, and gives all of them the base of this step.
    pub(crate) fn checkpoint_forgetting(&self) -> Result<()> {
        self.seal_and_checkpoint(self.options, |guard| guard.seal_forgetting())
    }

    /// Does the same as [`checkpoint`](Self::checkpoint), and leaves one run.
    pub(crate) fn checkpoint_full(&self) -> Result<()> {
        // First, what came has a run of its own: a merge of all pages that meets one which can't be read, once a part of it is
        // published, keeps its log, and keys in it would wait until the store is repaired.
        self.checkpoint()?;
        self.checkpoints.set_full(true);
        let merged = self.merge_runs();
        self.checkpoints.set_full(false);
        merged
    }

    /// Merges all runs, by the checkpoint of a log without keys.
    fn merge_runs(&self) -> Result<()> {
        for _ in 0..MOST_FULL_MERGES {
            if self.file.read_meta()?.superblock.runs.is_none() {
                break;
            }
            // Another handle may take this checkpoint over, and leave the runs.
            self.seal_and_checkpoint(self.options, |guard| {
                guard.ensure_log_space()?;
                if guard.view.active.buffer.keys() > 0 {
                    guard.rotate()?;
                }
                guard.seal_active(false)
            })?;
        }
        Ok(())
    }

    /// Does the same with other options, even if there is nothing to move.
    pub(crate) fn checkpoint_with(&self, options: &OpenOptions) -> Result<()> {
        self.seal_and_checkpoint(options, |guard| {
            // A closed log is what a checkpoint is made for.
            guard.ensure_log_space()?;
            guard.seal_active(false)
        })
    }

    /// Closes a log as `seal` does, and waits until that one and those before it are in the pages.
    fn seal_and_checkpoint(
        &self,
        options: &OpenOptions,
        seal: impl FnOnce(&mut WriteGuard<'_>) -> Result<bool>,
    ) -> Result<()> {
        self.handle.check_writable()?;
        seal(&mut self.lock()?)?;
        // Runs without a thread: this one has nothing else to do.
        let checkpointer = Checkpointer {
            options,
            ..self.checkpointer()
        };
        checkpointer.checkpoint_all(self.options.timeout)
    }
}

impl WriteGuard<'_> {
    /// Returns whether many commits made the log long in spite of few keys, so that it should be closed early.
    pub(crate) fn log_is_long(&self) -> bool {
        let buffer = &self.view.active.buffer;
        let most = buffer.bytes().saturating_mul(LONG_LOG_BUFFERS);
        buffer.tail().end > most.max(LEAST_LONG_LOG)
    }

    /// Returns whether the keys of the log are of another step than those that come now: all keys of a generation have one
    /// age. A later one is that of a log in which nothing was accepted, so that its time does not count.
    pub(crate) fn is_step_over(&self) -> bool {
        let Some(clock) = &self.view.clock else {
            return false;
        };
        let active = &self.view.active;
        let told = active.buffer.clock();
        active.has_log() && !told.is_some_and(|told| clock.is_current(told))
    }

    /// Returns whether there may be keys that are forgotten by now.
    fn may_forget(&self) -> bool {
        self.view.may_have_forgotten() && self.view.keys() > 0
    }

    /// Returns whether the number of keys may be too high: runs and buffers may have one that came again, or was renewed, and
    /// what the log has removed counts still.
    fn may_count_twice(&self) -> bool {
        let buffer = &self.view.active.buffer;
        let is_renewed = self.writer.file.header.renews() && !buffer.is_unused();
        self.view.superblock.may_count_twice() || is_renewed || buffer.has_removals()
    }

    /// Drops from the pages what is forgotten by now, and counts exactly what is left. Waits until that is done.
    pub(crate) fn forget(&mut self) -> Result<()> {
        // Other stores know how many keys they have, and forget none.
        if self.writer.file.header.window.is_none() {
            return Ok(());
        }
        if self.local.full_in == Some(self.counted_in()) {
            return Ok(());
        }
        if self.may_forget() || self.may_count_twice() {
            // Where something holds checkpoints off, for minutes perhaps, the store is busy: whether it is full shows later.
            self.seal_forgetting()?;
            self.finish_checkpoints()?;
        }
        self.local.full_in = Some(self.counted_in()).filter(|_| self.is_full(0));
        Ok(())
    }

    /// Returns what makes a difference to the number of keys in a full store.
    fn counted_in(&self) -> CountedIn {
        let buffer = &self.view.active.buffer;
        let inserted = buffer.inserted_keys().cast_unsigned();
        let removed = buffer.keys().saturating_sub(inserted);
        CountedIn {
            step: self.view.this_step(),
            set_version: self.view.superblock.set_version(),
            removed,
            // A commit makes room with removes alone: what renews keys changes their number as well.
            uncommitted: match removed {
                0 => 0,
                _ => self.uncommitted_of_all(),
            },
        }
    }

    /// Closes a log of this step, so that its checkpoint drops what is forgotten by now. The time counts from then on. Keys that
    /// came have a log of their own, which need not wait for pages that can't be read.
    fn seal_forgetting(&mut self) -> Result<bool> {
        // In any other store no reader takes such a log.
        assert!(self.writer.file.header.window.is_some());
        self.ensure_log_space()?;
        if self.view.active.buffer.keys() > 0 {
            self.rotate()?;
        }
        self.seal(Sealing {
            last: false,
            forgets: true,
            next: LogFor::Keys,
        })
    }

    /// Makes sure that there is a log, that it is not too long, and that it is of this step.
    pub(crate) fn ensure_log_space(&mut self) -> Result<()> {
        if !self.view.active.has_log() {
            self.start_log(LogFor::Keys)?;
        }
        // One whose creator died before using it may be of another step too.
        match self.log_is_long() || self.is_step_over() {
            true => self.rotate(),
            false => Ok(()),
        }
    }

    /// Returns how many keys no handle has committed.
    pub(crate) fn uncommitted_of_all(&self) -> u64 {
        let shared = self.writer.shared;
        (0..MAX_HANDLES)
            .map(|index| shared.slot(index).uncommitted())
            .fold(0, u64::saturating_add)
    }

    /// Seals the active generation, begins the next one for keys that come now, and starts the checkpoint of the sealed one.
    pub(crate) fn rotate(&mut self) -> Result<()> {
        let sealing = Sealing {
            last: false,
            forgets: false,
            next: LogFor::Keys,
        };
        if self.seal(sealing)? {
            self.writer.checkpointer().start_checkpoint()?;
        }
        Ok(())
    }

    /// Closes the active log and begins the next generation, without a checkpoint. Returns whether there was a log to
    /// close. With `last`, the next generation has no log and no room. Waits for the previous checkpoint if it is still
    /// running.
    pub(crate) fn seal_active(&mut self, last: bool) -> Result<bool> {
        self.seal(Sealing {
            last,
            forgets: false,
            next: LogFor::Notes,
        })
    }

    fn seal(&mut self, sealing: Sealing) -> Result<bool> {
        let Writer { handle, shared, .. } = *self.writer;
        let waits = shared.checkpointed() < shared.active();
        self.finish_checkpoints()?;
        // The thread that has just finished one is making this buffer.
        self.writer.checkpoints.wait_for_thread();
        if !self.view.active.has_log() {
            return Ok(false);
        }
        handle.check_names(Some(self.writer.logs.of(&self.view.active)?))?;
        self.reap_dead_handles()?;
        self.announce()?;
        let old = Arc::clone(&self.view.active);
        let next = old.number() + 1;
        self.check_view()?;
        self.check_size()?;
        let buffer = match sealing.last {
            // The last handle needs only the words of a buffer, not the buffer.
            true => self.writer.buffers.make_last(next)?,
            false => self.writer.buffers.make(next, self.demand(waits))?,
        };
        assert_eq!(buffer.generation(), next);
        let carried = self.carry(&old.buffer, &buffer)?;
        let moved: u64 = carried.iter().map(|open| open.keys.count()).sum();
        let net: i64 = carried.iter().map(|open| open.keys.net()).sum();
        // A logged key takes at least its hash: recovery would reject a layer for more keys.
        let count = (old.buffer.keys().saturating_sub(moved)).min(self.local.end.end / 8);
        let (header, superblock) = (&self.writer.file.header, &self.view.superblock);
        let (layer_index, layer) = target_of(self.writer.file, superblock, count)?;
        let target = layer.as_ref().map(|layer| (count, layer));
        buffer.set_room(room_after(header, superblock, target));
        buffer.set_keys(moved);
        buffer.set_net_keys(net);
        let made = Arc::new(Generation::new(buffer));
        // Recovery takes anything else for nonsense.
        assert!(layer.is_some() || layer_index == 0, "{layer_index}");
        let cut = Cut {
            last: sealing.last,
            forgets: sealing.forgets,
            layer_index,
            layer,
        };
        let begun = self.close_log(&old, &made, (&cut, sealing.next), &carried)?;
        // From here on the rotation counts. After a death the next holder completes it.
        // The log is closed, so that the next one has begun. None follows the last.
        assert!(sealing.last || begun.end >= RECORDS_OFFSET, "{begun:?}");
        self.sound = false;
        old.buffer.set_keys(count);
        let net = old.buffer.net_keys().saturating_sub(net);
        old.buffer.set_net_keys(net);
        old.buffer.set_sealed();
        self.writer.begin_next(&old, Some(made))?;
        self.refresh()?;
        self.local.end = begun;
        self.sound = true;
        if !sealing.last {
            self.local.announced = next;
        }
        Ok(true)
    }

    /// Returns what the next buffer is for. `waits` says whether the current one was full before the checkpoint of the
    /// one before it was done.
    fn demand(&self, waits: bool) -> Demand {
        let carried = match self.writer.file.header.transactional {
            true => self.uncommitted_of_all(),
            false => 0,
        };
        // Each of a window's keys is asked for after each rotation: that takes far longer than to make a larger buffer.
        let waiting = self.writer.hints.waiting.load(Ordering::Relaxed) as u64;
        Demand {
            carried,
            waits: waits || waiting > self.view.active.buffer.limit(),
            ..self.view.demand()
        }
    }

    /// Waits for the checkpoint of the previous generation, if there is one, and makes the view current.
    pub(crate) fn finish_checkpoints(&mut self) -> Result<()> {
        let timeout = self.writer.options.timeout;
        self.writer.checkpointer().checkpoint_all(timeout)?;
        self.refresh()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use crate::engine::checkpoint::run::Checkpointer;
    use crate::engine::write::Writer;
    use crate::testing::{LEAST_BUFFER, Options};

    /// Else a window of a new session goes through buffers that stay small: each of its keys is asked for after each of them.
    #[test]
    fn buffers_grow_where_a_window_waits() {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(folder.path().join("store")).unwrap();
        let demand = || {
            Writer::of(&store.engine)
                .lock()
                .unwrap()
                .demand(false)
                .waits
        };
        let limit = Writer::of(&store.engine)
            .lock()
            .unwrap()
            .view
            .active
            .buffer
            .limit();
        let mut sieve = crate::Sieve::new(&store).sweep(crate::Sweep::Always);
        for key in 0..limit + 3000 {
            sieve.push(
                crate::hash::HashedKey::from_bits(store.engine.hasher.mix(key)),
                (),
            );
        }
        assert!(!demand());
        sieve.claim(1000, |(), _| {}).unwrap();
        assert!(demand());
        sieve.claim(usize::MAX, |(), _| {}).unwrap();
        store.insert_batch(&[u64::MAX]).unwrap();
        assert!(!demand());
    }

    /// `verify` holds checkpoints off for as long as it reads. Until the next buffer is full, nobody needs one.
    #[test]
    fn a_rotation_does_not_wait_for_what_holds_checkpoints_off() {
        const HUNG: Duration = Duration::from_secs(60);
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(1000).buffer(LEAST_BUFFER);
        let store = options.create(folder.path().join("store.ever")).unwrap();
        store.insert(b"key").unwrap();
        let held = Checkpointer::of(&store.engine).hold_off().unwrap();
        let (send, receive) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let writer = Writer::of(&store.engine);
                let mut guard = writer.lock().unwrap();
                send.send(guard.seal_active(false)).unwrap();
            });
            let rotated = receive.recv_timeout(HUNG);
            drop(held);
            assert!(matches!(rotated, Ok(Ok(true))), "{rotated:?}");
        });
        assert!(store.contains(b"key").unwrap());
        store.close().unwrap();
    }
}
