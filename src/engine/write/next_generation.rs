//! The next generation and its log. It begins empty, or with the uncommitted keys of the previous one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::write::Writer;
use crate::engine::write::carry::Carried;
use crate::engine::write::guard::WriteGuard;
use crate::engine::writer_state::Local;
use crate::error::{Error, Result};
use crate::file::Superblock;
use crate::generation::Generation;
use crate::memtable::{POPULATED_FROM, ShmCorruption};
use crate::shm::coordination::MAX_HANDLES;
use crate::shm::store_clock::LogFor;
use crate::storefile::meta::room_after;
use crate::sys::lock;
use crate::wal::file::sync_parent;
use crate::wal::{Cut, LogBegin, LogEnd, LogError, LogFile, LogReader, LogWriter, log_path};

/// Bytes reserved for a new log, unless the last one was longer.
const LEAST_LOG_BYTES: u64 = 64 << 10;
/// The most bytes reserved for a new log.
const MOST_LOG_BYTES: u64 = 64 << 20;

impl Writer<'_> {
    /// Activates the generation after `old`, once the log of `old` is closed. After a death the next holder of the lock
    /// repeats this. `made` is the new generation, if this handle has it.
    pub(crate) fn begin_next(&self, old: &Generation, made: Option<Arc<Generation>>) -> Result<()> {
        let next = old.number() + 1;
        // Readers would take its keys for those of another log.
        assert!(made.iter().all(|made| made.number() == next));
        if made.is_some() {
            // Set this before announcing the generation: from then on readers look for it.
            *lock(&self.views.renewal) = made;
        }
        if self.shared.active() < next {
            self.shared.set_active(next);
        }
        self.views.renew()?;
        lock(&self.views.renewal).take();
        let active = Arc::clone(&self.views.cell.load().active);
        self.hand_transactions_over(Some(old), &active);
        Ok(())
    }

    /// Gives each handle its transaction in the active buffer, and ends its transaction in the previous buffer.
    pub(crate) fn hand_transactions_over(&self, old: Option<&Generation>, active: &Generation) {
        if !self.file.header.transactional {
            return;
        }
        for index in 0..MAX_HANDLES {
            self.shared.slot(index).set_transaction(0, 0);
        }
        for (state, handle) in active.buffer.open_transactions() {
            match self.shared.slot_of(handle) {
                // Keys that were carried over begin the log.
                Some(slot) => self.shared.slot(slot).set_transaction(state, 0),
                // Its handle is gone, so nothing can commit it.
                None => active.buffer.give_up_transaction(state),
            }
        }
        // The transactions continue in the next buffer. The old buffer must not show their keys as claimed after the
        // next one has given them up.
        if let Some(old) = old {
            for (state, _) in old.buffer.open_transactions() {
                old.buffer.abort_transaction(state);
            }
        }
    }
}

impl WriteGuard<'_> {
    /// Creates the active log. A superblock says that the log must exist before the log holds anything.
    pub(crate) fn start_log(&mut self, purpose: LogFor) -> Result<()> {
        let Writer { file, handle, .. } = *self.writer;
        self.finish_checkpoints()?;
        let mended = file.repair_sync();
        handle.poison_on_failure(mended)?;
        self.check_view()?;
        let active = Arc::clone(&self.view.active);
        self.prepare_buffer(&active)?;
        if self.view.superblock.log_expected {
            // A process died here. Its superblock may not be on the disk yet, and this one takes the place of the other.
            let synced = file.sync("sync the superblock of");
            handle.poison_on_failure(synced)?;
        }
        let moment = self.view.superblock.moment;
        let log = self.first_log(self.log_begin(active.number(), moment, purpose))?;
        let superblock = Superblock {
            sequence: self.view.superblock.sequence + 1,
            log_expected: true,
            ..self.view.superblock.clone()
        };
        let begun = LogEnd::begin(&log)
            .and_then(|begun| file.write_superblock(&superblock).map(|()| begun));
        // If this fails, the log stays for the next attempt: the superblock may have reached the disk.
        let begun = handle.poison_on_failure(begun)?;
        active
            .buffer
            .set_room(room_after(&file.header, &superblock, None));
        // From the first record on, a log that is lost is missed (I4).
        assert!(superblock.log_expected && superblock.generation <= active.number());
        active.adopt_log(log, begun);
        self.local.end = begun;
        Ok(())
    }

    /// Takes the memory of a buffer without a key ahead, in one piece, if the caller brings many. Otherwise it comes page by
    /// page, so that a few keys cost a few pages, and the rest of it with the [first many](POPULATED_FROM) keys.
    fn prepare_buffer(&self, active: &Generation) -> Result<()> {
        let coming = self.writer.hints.coming.load(Ordering::Relaxed);
        // To fill it erases keys. Without a log there are none.
        if !active.buffer.is_unused() || (coming as u64) < POPULATED_FROM {
            return Ok(());
        }
        self.writer.buffers.fill(active)
    }

    /// Adopts a log that another handle created but died before using, if there is one.
    pub(crate) fn take_up_log(&mut self) -> Result<()> {
        let active = &self.view.active;
        if active.has_log() {
            return Ok(());
        }
        let path = log_path(&self.writer.file.place, active.number());
        let there = self.writer.options.storage.exists(&path);
        match there.map_err(|error| Error::io("look for the log", &path, error))? {
            true => self.start_log(LogFor::Notes),
            false => Ok(()),
        }
    }

    /// Returns what a log begins with that is made now.
    fn log_begin(&self, generation: u64, moment: u64, purpose: LogFor) -> LogBegin {
        let clock = self.view.clock.as_ref();
        let before = &self.view.active;
        LogBegin {
            generation,
            moment,
            // Claims that are carried over keep their time.
            clock: clock.map(|clock| {
                clock.at_begin(purpose, before.buffer.clock().filter(|_| before.has_log()))
            }),
        }
    }

    /// Returns the log to begin with: a new one, or one whose creator died before using it.
    fn first_log(&self, begin: LogBegin) -> Result<Arc<LogFile>> {
        let number = begin.generation;
        let Writer { file, logs, .. } = *self.writer;
        let storage = &*self.writer.options.storage;
        let store_id = &file.header.store_id;
        match LogFile::open(storage, &file.place, store_id, number, true) {
            Ok(Some(log)) => self.check_unused(log).map(Arc::new),
            Ok(None) => logs.create(begin, LEAST_LOG_BYTES),
            // Its creation was interrupted.
            Err(Error::Log {
                source: LogError::Header,
                ..
            }) => {
                logs.remove_unused(number)?;
                logs.create(begin, LEAST_LOG_BYTES)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that a log is empty and makes it durable.
    fn check_unused(&self, log: LogFile) -> Result<LogFile> {
        let handle = self.writer.handle;
        if LogReader::new(&log)?.next()?.is_some() {
            // The shared words know of no log, but this one holds keys.
            return Err(handle.poison_shared(ShmCorruption {
                word: "tail",
                expected: "that of a log with records".to_owned(),
                got: 0,
            }));
        }
        // Its creator may have died before its header and name were durable.
        let synced = log.file.sync();
        let synced = synced
            .map_err(|error| Error::sync("sync the log", &log.path, error))
            .and_then(|()| sync_parent(&*self.writer.options.storage, &log.path));
        handle.poison_on_failure(synced)?;
        Ok(log)
    }

    /// Creates the next log with the keys carried over, and then closes the active one. In this order, a lack of room
    /// for the next log leaves the active one open and nothing has happened. After a crash in between, a next log whose
    /// predecessor is open does not count.
    pub(crate) fn close_log(
        &mut self,
        old: &Generation,
        made: &Generation,
        (cut, purpose): (&Cut, LogFor),
        carried: &[Carried],
    ) -> Result<LogEnd> {
        // A crash leaves two logs at most, one number apart: recovery looks for no others.
        assert_eq!(made.number(), old.number() + 1);
        let Writer { handle, logs, .. } = *self.writer;
        let storage = &*self.writer.options.storage;
        let log = Arc::clone(logs.of(old)?);
        let mut next_end = LogEnd::default();
        if !cut.last {
            let length = self.local.end.end.clamp(LEAST_LOG_BYTES, MOST_LOG_BYTES);
            let begin = self.log_begin(made.number(), log.next_moment(), purpose);
            let next = logs.create(begin, length)?;
            let path = next.path.clone();
            let begun = self.begin_log(made, next, carried);
            if begun.is_err() {
                // It never counted. If the removal fails too, the next opener removes it.
                let _ = storage.remove(&path);
            }
            next_end = handle.poison_on_failure(begun)?;
        }
        let owns = self.expect_lock();
        let Local { end, scratch, .. } = &mut *self.local;
        let cut_off = |log: &mut LogWriter<'_>| log.cut(handle.number, cut);
        let closed = owns.and_then(|()| old.append(&log, end, scratch, cut_off));
        // After any other failure the cut may have reached the disk, which then requires the next log.
        if matches!(closed, Err(Error::NoSpace { .. })) && !cut.last {
            let path = log_path(&self.writer.file.place, made.number());
            let _ = storage.remove(&path);
        }
        handle.poison_on_failure(closed)?;
        Ok(next_end)
    }

    fn begin_log(
        &mut self,
        made: &Generation,
        log: Arc<LogFile>,
        carried: &[Carried],
    ) -> Result<LogEnd> {
        let own = self.writer.handle.number;
        // Before the first record is in it: buffer and log hold the same keys (I3).
        assert_eq!(log.generation, made.number());
        let mut end = LogEnd::begin(&log)?;
        made.buffer.set_durable(end.end);
        made.set_log_end(end);
        made.append(&log, &mut end, &mut self.local.scratch, |log| {
            log.open(own)?;
            for open in carried {
                for (hashes, is_insert) in open.keys.records() {
                    match is_insert {
                        true => log.insert(open.handle, hashes)?,
                        false => log.remove(open.handle, hashes)?,
                    }
                }
            }
            Ok(())
        })?;
        made.buffer.set_applied(end.end);
        made.set_log(log);
        Ok(end)
    }
}
