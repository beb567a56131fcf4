//! Takes over from a holder of the writer lock that died in the middle of its work, and gives up what dead handles left
//! uncommitted.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::engine::write::Writer;
use crate::engine::write::commit::finish_commit;
use crate::engine::write::guard::WriteGuard;
use crate::error::{Error, Result};
use crate::generation::Generation;
use crate::memtable::{Buffer, COMMITTED, Digest, OpenKeys, ShmCorruption};
use crate::shm::coordination::MAX_HANDLES;
use crate::shm::handle_slot::HandleSlot;
use crate::shm::shm_files::{buffer_path, remove_if_there};
use crate::wal::file::sync_parent;
use crate::wal::{LogEnd, LogReader, Mark, Record, RecordKind, log_path};

/// What the active log says after a death.
struct Logged {
    end: LogEnd,
    /// The highest sequence among its marks.
    sequence: u64,
    /// Each handle's keys since its last mark.
    pending: BTreeMap<u64, Digest>,
    /// Whether the log was closed.
    sealed: bool,
}

impl Writer<'_> {
    /// Completes or undoes what a holder of the writer lock left half done when it died. If this is interrupted too,
    /// the next holder starts over.
    pub(crate) fn take_over(&self) -> Result<()> {
        self.views.renew()?;
        let view = self.views.cell.load_full();
        let active = &view.active;
        self.hand_transactions_over(view.sealed.as_deref(), active);
        if !active.has_log() {
            return self.remove_successor(active);
        }
        let sequence = view.check_sequence(self.shared);
        let sequence = sequence.map_err(|wrong| self.handle.poison_shared(wrong))?;
        let logged = self.apply_rest(active)?;
        self.shared
            .set_commit_sequence(sequence.max(logged.sequence));
        active.set_log_end(logged.end);
        active.buffer.retract_unlogged();
        self.recount_uncommitted(&active.buffer, &logged.pending)?;
        if logged.sealed {
            // Do this first: after another death from here on, the cut is not read again.
            active.buffer.set_sealed();
        }
        active.buffer.set_applied(logged.end.end);
        if logged.sealed {
            self.begin_next(active, None)?;
            // Keys that were carried over count in the next buffer.
            active.buffer.retract_unlogged();
        } else {
            self.remove_successor(active)?;
        }
        Ok(())
    }

    /// Brings into the buffer what only the log holds, and returns the contents of the log. Reads the log from its
    /// beginning, because only the log itself says reliably where it ends.
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
            self.apply_record(active, &record, record.offset < applied, &mut logged);
        }
        let reported = ShmCorruption::unless_in("tail", 0..=reader.end(), tail.end);
        reported.map_err(|wrong| self.handle.poison_shared(wrong))?;
        logged.end.end = reader.end();
        logged.end.previous = reader.previous();
        Ok(logged)
    }

    /// Applies one record to the buffer, unless it `is_applied` already, and to the summary.
    fn apply_record(
        &self,
        active: &Generation,
        record: &Record<'_>,
        is_applied: bool,
        logged: &mut Logged,
    ) {
        match record.kind {
            // The checkpoint reads from the log what goes into sections.
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
            RecordKind::Insert | RecordKind::Remove => {
                let is_insert = record.kind == RecordKind::Insert;
                let canonical = record.hashes().map(|hash| active.buffer.canonical(hash));
                let pending = logged.pending.entry(record.handle).or_default();
                pending.add_all(canonical, if is_insert { 1 } else { -1 });
                if !is_applied && let Some(state) = self.state_of(record.handle) {
                    let hashes = record.hashes();
                    active.buffer.apply_logged(hashes, is_insert, state);
                }
            }
        }
    }

    /// Recounts each handle's uncommitted keys, and checks them against those in the log.
    fn recount_uncommitted(&self, active: &Buffer, pending: &BTreeMap<u64, Digest>) -> Result<()> {
        for index in 0..MAX_HANDLES {
            let slot = self.shared.slot(index);
            let handle = slot.handle();
            let mut open = OpenKeys::default();
            if slot.transaction() != 0 {
                open = OpenKeys::of(active, handle);
                let logged = pending.get(&handle).copied().unwrap_or_default();
                self.handle
                    .expect_digest(handle, logged, open.digest(active))?;
            }
            slot.set_uncommitted(open.digest(active), open.count());
        }
        Ok(())
    }

    /// Returns the state of keys that a handle claims; `None` if it has no transaction, so that they can never count.
    fn state_of(&self, handle: u64) -> Option<u16> {
        if !self.file.header.transactional {
            return Some(COMMITTED);
        }
        let slot = self.shared.slot_of(handle)?;
        let state = self.shared.slot(slot).transaction();
        (state != 0).then_some(state)
    }

    /// Removes the files of a rotation that ended before it closed the log.
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

/// Gives up a handle's uncommitted keys, and returns how many these are.
fn abort_keys(active: &Buffer, slot: HandleSlot<'_>, handle: u64) -> u64 {
    let (state, mut dropped) = (slot.transaction(), 0);
    // The state may belong to another handle by now.
    if state != 0 && active.is_open(state, handle) {
        active.give_up_transaction(state);
        dropped = slot.uncommitted();
        active.set_keys(active.keys().saturating_sub(dropped));
        let net = slot.digest().net();
        active.set_net_keys(active.net_keys().saturating_sub(net));
    }
    slot.set_transaction(0, 0);
    slot.set_uncommitted(Digest::default(), 0);
    dropped
}

impl WriteGuard<'_> {
    /// Gives up what this handle has not committed.
    pub(crate) fn abort_own(&mut self) {
        let active = &self.view.active.buffer;
        let dropped = abort_keys(active, self.slot(), self.writer.handle.number);
        self.local.dropped += dropped;
    }

    /// Gives up what dead handles left uncommitted, and frees their slots.
    pub(crate) fn reap_dead_handles(&self) -> Result<()> {
        let writer = &self.writer;
        if !writer.state.is_shared {
            return Ok(());
        }
        let active = &self.view.active.buffer;
        for index in 0..MAX_HANDLES {
            let slot = writer.shared.slot(index);
            let handle = slot.handle();
            let lives = |handle| writer.handle.locks.is_alive(writer.shared, handle);
            if handle == 0 || handle == writer.handle.number || lives(handle)? {
                continue;
            }
            let abandoned = abort_keys(active, slot, handle);
            writer
                .state
                .abandoned
                .fetch_add(abandoned, Ordering::Relaxed);
            slot.set_handle(0);
        }
        let open: Vec<_> = active.open_transactions().collect();
        for (state, handle) in open {
            if writer.shared.slot_of(handle).is_none() {
                active.give_up_transaction(state);
            }
        }
        Ok(())
    }
}
