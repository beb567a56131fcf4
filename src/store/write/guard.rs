//! The writer lock, and going on after a holder of it that died.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use arc_swap::Guard;

use crate::buffer::{Buffer, Digest, Presence, Wrong};
use crate::error::{Error, Result};
use crate::log::file::sync_parent;
use crate::log::{LogEnd, LogReader, LogWriter, Mark, Record, RecordKind, log_path};
use crate::store::coordination::biased_lock::Bias;
use crate::store::coordination::locks::lock_error;
use crate::store::coordination::shm::{DAMAGED, HandleSlot, MAX_HANDLES};
use crate::store::coordination::shm_files::buffer_path;
use crate::store::coordination::shm_files::remove_if_there;
use crate::store::engine::Engine;
use crate::store::engine::writer_state::Local;
use crate::store::generation::Generation;
use crate::store::view::View;
use crate::sys::LockFile;

/// The writer lock, held. One holder in all threads and processes.
pub(crate) struct Writing<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) local: MutexGuard<'a, Local>,
    /// What is there, and stays while the lock is held but for the end of a checkpoint.
    pub(crate) view: Guard<Arc<View>>,
    lock: WriterLock<'a>,
    /// Nothing is left half done. Else the next holder goes on as if somebody had died here.
    pub(crate) sound: bool,
}

/// What keeps other writers out.
enum WriterLock<'a> {
    /// Nothing: the handle is an exclusive one.
    Alone,
    Bias(Bias<'a>),
    File(&'a LockFile),
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // A handle that can't go on leaves its work as if it had died, and the next holder mends it.
        if self.sound
            && !self.engine.handle.is_poisoned()
            && !std::thread::panicking()
            && self.leave_sum()
        {
            self.engine.shared.set_changing(0);
        }
        match self.lock {
            WriterLock::Alone => {}
            WriterLock::Bias(bias) => bias.leave(),
            WriterLock::File(file) => file.unlock(),
        }
    }
}

impl Engine {
    /// Takes the writer lock.
    pub(crate) fn lock_writer(&self) -> Result<Writing<'_>> {
        let local = self.writer.waits.mutex(&self.writer.state);
        self.handle.check_usable()?;
        if local.closed || local.closing {
            return Err(Error::Closed);
        }
        self.take_writer(local)
    }

    /// The same for who is closing the handle.
    pub(crate) fn take_writer<'a>(
        &'a self,
        mut local: MutexGuard<'a, Local>,
    ) -> Result<Writing<'a>> {
        if self.writer.biased {
            let is_revoked = self.shared.bias().is_revoked();
            if local.revoked && !is_revoked {
                // Others would be let in beside this one.
                return Err(self.handle.distrust(Wrong {
                    word: "revoked",
                    expected: "1".to_owned(),
                    got: 0,
                }));
            }
            local.revoked = is_revoked;
        }
        let lock = self.exclude_writers()?;
        self.writer.waits.count();
        let died = self.shared.changing();
        let is_damaged = self.shared.poisoned() == DAMAGED;
        let mut writing = Writing {
            engine: self,
            local,
            view: self.views.cell.load(),
            lock,
            sound: false,
        };
        if is_damaged {
            self.handle.check_usable()?;
        }
        if died != 0 {
            let mended = self.mend();
            self.handle.poison_on_failure(mended)?;
        }
        writing.refresh()?;
        if died != 0 {
            writing.view.leave_sum(&self.shared);
        }
        writing.check_memory()?;
        writing.sound = true;
        self.shared.set_changing(self.handle.number);
        Ok(writing)
    }

    /// Whether no other handle writes, as far as can be told without the lock.
    pub(crate) fn is_sole_writer(&self) -> bool {
        self.writer.lock.is_none() || self.writer.biased && !self.shared.bias().is_revoked()
    }

    fn exclude_writers(&self) -> Result<WriterLock<'_>> {
        let Some(file) = &self.writer.lock else {
            return Ok(WriterLock::Alone);
        };
        let bias = self.shared.bias();
        if self.writer.biased && bias.enter(self.handle.number) {
            return Ok(WriterLock::Bias(bias));
        }
        let taken = self.writer.waits.exclusive(file, self.options.timeout);
        if taken.map_err(lock_error(&self.file.place))? {
            return Ok(WriterLock::File(file));
        }
        let holder = self.shared.slot_of(self.shared.changing());
        Err(Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "the writer lock",
            process: holder.map(|slot| self.shared.slot(slot).process()),
        })
    }

    /// Puts right what a holder of the writer lock left half done when it died. Whatever it is
    /// interrupted at, it can be done again from the beginning.
    fn mend(&self) -> Result<()> {
        self.views.renew()?;
        let view = self.views.cell.load_full();
        let active = &view.active;
        self.hand_transactions_over(view.frozen.as_deref(), active);
        if !active.has_log() {
            return self.remove_successor(active);
        }
        let sequence = view.check_sequence(&self.shared);
        let sequence = sequence.map_err(|wrong| self.handle.distrust(wrong))?;
        let logged = self.apply_rest(active)?;
        self.shared
            .set_commit_sequence(sequence.max(logged.sequence));
        active.set_log_end(logged.end);
        self.retract(&active.buffer);
        self.recount_uncommitted(&active.buffer, &logged.pending)?;
        if logged.sealed {
            // First: who comes after a death from here on does not read the cut again.
            active.buffer.set_sealed();
        }
        active.buffer.set_applied(logged.end.end);
        if logged.sealed {
            self.begin_next(active, None)?;
            // What was carried over counts there.
            self.retract(&active.buffer);
        } else {
            self.remove_successor(active)?;
        }
        Ok(())
    }

    /// Brings into the buffer what the log has and it has not, and tells what is in the log. Read from its
    /// beginning: where it ends, only the log itself tells for certain.
    fn apply_rest(&self, active: &Generation) -> Result<Logged> {
        let log = self.logs.of(active)?;
        let (tail, applied) = (active.log_end(), active.buffer.applied());
        let mut logged = Logged {
            end: LogEnd::begin(log)?,
            sequence: 0,
            pending: BTreeMap::new(),
            sealed: false,
        };
        let mut reader = LogReader::new(log)?;
        while let Some(record) = reader.next()? {
            let is_applied = record.offset < applied;
            match record.kind {
                // What goes into sections is seen to by the checkpoint.
                RecordKind::Open | RecordKind::Exempt | RecordKind::Lost => {}
                RecordKind::Cut => logged.sealed = true,
                RecordKind::Commit => {
                    logged.pending.remove(&record.handle);
                    if let Some(mark) = Mark::decode(record.payload) {
                        logged.sequence = logged.sequence.max(mark.sequence);
                    }
                    if !is_applied && let Some(slot) = self.shared.slot_of(record.handle) {
                        finish_commit(active, self.shared.slot(slot));
                    }
                }
                RecordKind::Insert | RecordKind::Remove if self.file.is_counting() => {
                    let by = if record.kind == RecordKind::Insert {
                        1
                    } else {
                        -1
                    };
                    if !is_applied {
                        count_marked(active, record, by);
                    }
                }
                RecordKind::Insert | RecordKind::Remove => {
                    let pending = logged.pending.entry(record.handle).or_default();
                    pending.add_all(record.hashes(), 1);
                    if !is_applied && let Some(state) = self.state_of(record.handle) {
                        for hash in record.hashes() {
                            active.buffer.publish_claimed(hash, state);
                        }
                    }
                }
            }
        }
        let told = Wrong::unless_in("tail", 0..=reader.end(), tail.end);
        told.map_err(|wrong| self.handle.distrust(wrong))?;
        logged.end.end = reader.end();
        logged.end.previous = reader.previous();
        Ok(logged)
    }

    /// Gives up what was begun and is not in the log, and counts anew.
    fn retract(&self, active: &Buffer) {
        match self.file.is_counting() {
            true => active.unmark_all(),
            false => active.retract_claimed(),
        }
    }

    /// Counts each handle's uncommitted keys anew, which are those of the log.
    fn recount_uncommitted(&self, active: &Buffer, pending: &BTreeMap<u64, Digest>) -> Result<()> {
        let mut keys = Vec::new();
        for index in 0..MAX_HANDLES {
            let slot = self.shared.slot(index);
            let handle = slot.handle();
            keys.clear();
            if slot.transaction() != 0 {
                active.collect(
                    0..=u64::MAX,
                    |found| found == Presence::Open(handle),
                    &mut keys,
                );
                let logged = pending.get(&handle).copied().unwrap_or_default();
                self.handle.expect_keys(handle, logged, &keys)?;
            }
            slot.set_digest(Digest::of(&keys));
        }
        Ok(())
    }

    /// The state of keys that a handle claims; `None` if it has no transaction, so that they can't
    /// come to count.
    fn state_of(&self, handle: u64) -> Option<u16> {
        if !self.file.header.transactional {
            return Some(crate::buffer::COMMITTED);
        }
        let slot = self.shared.slot_of(handle)?;
        let state = self.shared.slot(slot).transaction();
        (state != 0).then_some(state)
    }

    /// Removes what a rotation made that did not come to close the log before.
    fn remove_successor(&self, active: &Generation) -> Result<()> {
        let next = active.number() + 1;
        remove_if_there(&self.file.place, &buffer_path(&self.file.place, next))?;
        let storage = &*self.options.storage;
        let path = log_path(&self.file.place, next);
        let failed = |error| Error::io("remove a log that was never used", &path, error);
        if storage.exists(&path).map_err(failed)? {
            storage.remove(&path).map_err(failed)?;
            sync_parent(storage, &path)?;
        }
        Ok(())
    }
}

/// What a log tells who goes on after a death.
struct Logged {
    end: LogEnd,
    /// The highest of its marks.
    sequence: u64,
    /// Of each handle's keys since its last mark.
    pending: BTreeMap<u64, Digest>,
    /// It was closed.
    sealed: bool,
}

/// What a record of a counting store means for those of its keys that are marked.
fn count_marked(active: &Generation, record: Record<'_>, by: i64) {
    let mut nets = BTreeMap::new();
    for hash in record.hashes() {
        *nets.entry(hash).or_insert(0) += by;
    }
    // All at once: the mark goes with the first.
    for (hash, net) in nets {
        active.buffer.count_marked(hash, net);
    }
}

/// What a mark in the log means for the buffer: the handle's keys count.
pub(crate) fn finish_commit(active: &Generation, slot: HandleSlot<'_>) {
    let state = slot.transaction();
    if state != 0 {
        active.buffer.commit_transaction(state);
        slot.set_transaction(0);
    }
    slot.set_digest(Digest::default());
}

impl Writing<'_> {
    /// Makes the view current. Other writers are kept out, so only checkpoints go on.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let engine = self.engine;
        if !self.view.is_current(&engine.shared) {
            engine.views.renew()?;
            self.view = engine.views.cell.load();
        }
        Ok(())
    }

    /// This handle's words among those of all handles.
    pub(crate) fn slot(&self) -> HandleSlot<'_> {
        self.engine.shared.slot(self.engine.handle.seat)
    }

    /// Announces this handle in the active log, if it hasn't yet.
    pub(crate) fn announce(&mut self) -> Result<()> {
        if self.local.announced == self.view.active.number() {
            return Ok(());
        }
        self.append(|log, handle| log.open(handle))?;
        self.set_applied();
        self.local.announced = self.view.active.number();
        Ok(())
    }

    /// Tells that all that the log has is in the buffer.
    pub(crate) fn set_applied(&self) {
        self.view.active.buffer.set_applied(self.local.end.end);
    }

    /// Appends to the active log, in this handle's name.
    pub(crate) fn append(
        &mut self,
        write: impl FnOnce(&mut LogWriter<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        let engine = self.engine;
        let active = &self.view.active;
        let log = engine.logs.of(active)?;
        let Local { end, scratch, .. } = &mut *self.local;
        let outcome = active.append(log, end, scratch, |log| write(log, engine.handle.number));
        engine.handle.poison_on_failure(outcome)
    }

    /// Gives up what this handle has not committed.
    pub(crate) fn give_up(&self) {
        let slot = self.slot();
        let active = &self.view.active.buffer;
        let state = slot.transaction();
        // Unless it is no longer what it was: then it is not this handle's to give up.
        if state != 0 && active.is_open(state, self.engine.handle.number) {
            active.abort_transaction(state);
            active.set_keys(active.keys().saturating_sub(slot.uncommitted()));
        }
        slot.set_transaction(0);
        slot.set_digest(Digest::default());
    }

    /// Gives up what handles that died left uncommitted, and frees their places.
    pub(crate) fn drop_the_dead(&self) -> Result<()> {
        let engine = self.engine;
        if engine.writer.lock.is_none() {
            return Ok(());
        }
        let active = &self.view.active.buffer;
        for index in 0..MAX_HANDLES {
            let slot = engine.shared.slot(index);
            let handle = slot.handle();
            let lives = |handle| engine.handle.locks.is_alive(&engine.shared, handle);
            if handle == 0 || handle == engine.handle.number || lives(handle)? {
                continue;
            }
            if slot.transaction() != 0 && active.is_open(slot.transaction(), handle) {
                active.abort_transaction(slot.transaction());
                active.set_keys(active.keys().saturating_sub(slot.uncommitted()));
            }
            slot.set_transaction(0);
            slot.set_digest(Digest::default());
            slot.set_handle(0);
        }
        let open: Vec<_> = active.open_transactions().collect();
        for (state, handle) in open {
            if engine.shared.slot_of(handle).is_none() {
                active.abort_transaction(state);
            }
        }
        Ok(())
    }
}
