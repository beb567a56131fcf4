//! Recovery by the first handle to open a store: what the logs say, and how to continue from there (FORMAT.md,
//! "Recovery").

use std::path::Path;
use std::sync::Arc;

use crate::config::open_options::OpenOptions;
use crate::engine::Engine;
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::open::recovered_log::RecoveredLog;
use crate::engine::open::strays::StrayLogs;
use crate::engine::recovery_report::RecoveryReport;
use crate::engine::view::ViewCell;
use crate::engine::write::Writer;
use crate::error::{Error, Result};
use crate::file::superblock::{Commits, WRITERS_ROOM, writers_bytes};
use crate::filter::checkpoint as filter;
use crate::generation::log_summary::scan;
use crate::shm::coordination::Coordination;
use crate::shm::handle::Handle;
use crate::shm::place::Place;
use crate::storefile::meta::{Meta, expect_counters_left};
use crate::storefile::store_file::{StoreFile, write_superblock};
use crate::sys::storage::{Storage, StorageFile};
use crate::wal::file::{RECORDS_OFFSET, sync_parent};
use crate::wal::{LogError, LogFile, LogReader, log_path};

/// Continues with what recovery has found.
pub(crate) struct Resumption<'a> {
    options: &'a OpenOptions,
    handle: &'a Handle,
    shared: &'a Coordination,
    file: &'a StoreFile,
    views: &'a ViewCell,
    writer: Writer<'a>,
    checkpointer: Checkpointer<'a>,
}

impl<'a> Resumption<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            options: &engine.options,
            handle: &engine.handle,
            shared: &engine.shared,
            file: &engine.file,
            views: &engine.views,
            writer: Writer::of(engine),
            checkpointer: Checkpointer::of(engine),
        }
    }

    /// Continues with what recovery has found. An interrupted checkpoint continues in the background. Logs that do not
    /// fit in memory are applied first, from the logs themselves.
    pub(crate) fn resume(&self, recovered: Recovered, overflow: bool) -> Result<()> {
        // Keys that come now go into the log that recovery found, or into the first of its generation (I3).
        assert_eq!(self.views.cell.load().active.number(), recovered.number);
        self.views.cell.load().leave_sum(self.shared);
        if recovered.sealed.is_some() {
            let replayed = filter::replay_journal(self.file);
            self.handle.poison_on_failure(replayed)?;
        }
        if !overflow {
            return match self.shared.checkpointed() < self.shared.active() {
                true => self.resume_checkpoint(),
                false => Ok(()),
            };
        }
        match &recovered.sealed {
            Some(found) if !found.loaded => {
                // From the closed log: it has the number of the generation before.
                assert_eq!(found.log.generation + 1, recovered.number);
                self.checkpointer.checkpoint_from_log(&found.log)?;
            }
            _ => self.checkpointer.checkpoint_all(self.options.timeout)?,
        }
        if let Some(found) = &recovered.active
            && !found.loaded
        {
            let mut writing = self.writer.lock()?;
            writing
                .view
                .active
                .buffer
                .set_keys(found.scan.committed_keys);
            writing.seal_active(false)?;
            drop(writing);
            self.checkpointer.checkpoint_from_log(&found.log)?;
        }
        Ok(())
    }

    /// Starts the checkpoint that is due. A damaged page does not prevent opening the store and reading the other
    /// pages.
    pub(crate) fn resume_checkpoint(&self) -> Result<()> {
        match self.checkpointer.start_checkpoint() {
            Err(Error::Format { .. }) => Ok(()),
            outcome => outcome,
        }
    }
}

/// What the logs of a store hold.
pub(crate) struct Recovered {
    /// The closed generation whose checkpoint is due. `load` returns no generation for it if the granted memory has no
    /// room for its keys.
    pub(crate) sealed: Option<RecoveredLog>,
    /// The generation that takes new keys, if it has a log.
    pub(crate) active: Option<RecoveredLog>,
    /// The number of the active generation.
    pub(crate) number: u64,
    pub(crate) next_handle: u64,
    pub(crate) commit_sequence: u64,
    pub(crate) writers_bytes: u64,
    /// The latest time that one of the logs brings; 0 if none does.
    pub(crate) clock: u64,
}

impl Recovered {
    /// Refuses to write to logs that bring a counter near its end.
    pub(crate) fn expect_counters_left(&self, path: &Place) -> Result<()> {
        let counters = [
            ("commit_sequence", self.commit_sequence),
            ("handle", self.next_handle),
        ];
        expect_counters_left(path, &counters)
    }

    pub(crate) fn report(&self, meta: &Meta) -> RecoveryReport {
        let mut report = RecoveryReport {
            checkpoint: self.sealed.is_some(),
            superblock: meta.damaged.clone(),
            ..RecoveryReport::default()
        };
        for found in self.sealed.iter().chain(&self.active) {
            report.logs += 1;
            report.log_bytes += found.scan.end.end;
            report.keys += found.scan.committed_keys;
            report.dropped += found.scan.keys.saturating_sub(found.scan.committed_keys);
        }
        report
    }
}

/// Reads the logs. A writer also removes logs that do not count.
pub(crate) fn recover(
    options: &OpenOptions,
    place: &Place,
    meta: &Meta,
    write: bool,
) -> Result<Recovered> {
    Recovery {
        options,
        place,
        meta,
        write,
    }
    .run()
}

struct Recovery<'a> {
    options: &'a OpenOptions,
    place: &'a Place,
    meta: &'a Meta,
    write: bool,
}

impl Recovery<'_> {
    fn run(&self) -> Result<Recovered> {
        let recovered = self.read()?;
        self.strays().refuse(&recovered)?;
        if self.write {
            let generation = self.meta.superblock.generation;
            // Its checkpoint was done, but the removal of its name was not yet durable.
            self.remove_log(generation - 1)?;
            if recovered.sealed.is_none() && recovered.active.is_some() {
                // A rotation created it but did not get as far as closing this one: it never counted.
                self.remove_log(generation + 1)?;
            }
        }
        Ok(recovered)
    }

    fn strays(&self) -> StrayLogs<'_> {
        StrayLogs {
            options: self.options,
            place: self.place,
            meta: self.meta,
            write: self.write,
        }
    }

    fn read(&self) -> Result<Recovered> {
        let superblock = &self.meta.superblock;
        let generation = superblock.generation;
        let Some(first) = self.open_first(generation)? else {
            return self.outcome(None, None, generation);
        };
        self.strays()
            .expect_moment(&first, self.meta.superblock.moment)?;
        let first = self.scan(first, self.meta.superblock.log_expected)?;
        let Some(cut) = first.scan.cut.clone() else {
            self.expect_no_checkpoint(&first)?;
            self.expect_no_commits_after(&first)?;
            return self.outcome(None, Some(first), generation);
        };
        if !first.scan.fits(&cut, self.meta) {
            let reason = "its layer does not fit the superblock's";
            return Err(first.nonsense(reason));
        }
        if cut.last {
            return self.outcome(Some(first), None, generation + 1);
        }
        let Some(second) = self.open_log(generation + 1)? else {
            return Err(self.missing(generation + 1));
        };
        self.strays()
            .expect_moment(&second, first.log.next_moment())?;
        // It was durable before the record that closes the first.
        let second = self.scan(second, true)?;
        if second.scan.cut.is_some() {
            return Err(second.nonsense("it is closed, and the log before it is still there"));
        }
        self.outcome(Some(first), Some(second), generation + 1)
    }

    fn outcome(
        &self,
        sealed: Option<RecoveredLog>,
        active: Option<RecoveredLog>,
        number: u64,
    ) -> Result<Recovered> {
        let superblock = &self.meta.superblock;
        // The closed log is that of the superblock, and the active one follows it.
        let is_numbered = |found: &RecoveredLog, expected| found.log.generation == expected;
        assert!(
            sealed
                .iter()
                .all(|log| is_numbered(log, superblock.generation))
        );
        assert!(sealed.iter().all(|log| is_numbered(log, number - 1)));
        assert!(active.iter().all(|log| is_numbered(log, number)));
        let mut commits: Commits = superblock.commits.clone();
        let mut commit_sequence = superblock.commit_sequence;
        let (mut handle, mut clock) = (0, 0);
        for found in sealed.iter().chain(&active) {
            commits.extend(found.scan.commits.clone());
            commit_sequence = commit_sequence.max(found.scan.commit_sequence);
            handle = handle.max(found.scan.handle);
            clock = clock.max(found.scan.clock_of(&found.log).unwrap_or(0));
            if writers_bytes(&commits) > WRITERS_ROOM as u64 {
                return Err(found.nonsense("its marks name more writers than a superblock holds"));
            }
        }
        Ok(Recovered {
            sealed,
            active,
            number,
            next_handle: handle.saturating_add(1),
            commit_sequence,
            writers_bytes: writers_bytes(&commits),
            clock,
        })
    }

    fn missing(&self, generation: u64) -> Error {
        Error::Log {
            path: log_path(self.place, generation),
            source: LogError::Missing { generation },
        }
    }

    /// Opens the log of the superblock's own generation.
    fn open_first(&self, generation: u64) -> Result<Option<LogFile>> {
        // If a checkpoint of it had begun, its log must exist, even if an older superblock does not record it.
        let begun = self.meta.has_begun();
        let expected = self.meta.superblock.log_expected || begun;
        match self.open_log(generation) {
            Ok(None) if expected => Err(self.missing(generation)),
            // It is incomplete because its creator died. No superblock recorded it yet.
            Err(Error::Log {
                source: LogError::Header,
                ..
            }) if !expected => {
                if self.write {
                    self.remove_log(generation)?;
                }
                Ok(None)
            }
            outcome => outcome,
        }
    }

    fn open_log(&self, generation: u64) -> Result<Option<LogFile>> {
        let storage = &*self.options.storage;
        let id = &self.meta.header.store_id;
        LogFile::open(storage, self.place, id, generation, self.write)
    }

    /// Removes a log of this store that no longer counts.
    fn remove_log(&self, generation: u64) -> Result<()> {
        let storage: &dyn Storage = &*self.options.storage;
        let path = log_path(self.place, generation);
        let failed = |error| Error::io("remove a log whose keys are in the pages", &path, error);
        if storage.exists(&path).map_err(failed)? {
            match storage.remove(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                outcome => outcome.map_err(failed)?,
            }
            sync_parent(storage, &path)?;
        }
        Ok(())
    }

    /// Checks that no checkpoint has begun: one begins only once the record that closes the log is durable.
    fn expect_no_checkpoint(&self, found: &RecoveredLog) -> Result<()> {
        if self.meta.has_begun() {
            return Err(Error::Log {
                path: found.log.path.clone(),
                source: LogError::Unsealed {
                    end: found.scan.end.end,
                },
            });
        }
        Ok(())
    }

    /// Checks that no commit follows: a commit makes the previous log durable, and only then writes its mark.
    fn expect_no_commits_after(&self, first: &RecoveredLog) -> Result<()> {
        let storage = &*self.options.storage;
        let id = &self.meta.header.store_id;
        let next = first.log.generation + 1;
        let Ok(Some(next)) = LogFile::open(storage, self.place, id, next, false) else {
            return Ok(());
        };
        if self
            .strays()
            .expect_moment(&next, first.log.next_moment())
            .is_err()
        {
            // A stray log, and refused as such.
            return Ok(());
        }
        if scan(&next, &self.meta.header)?.commit_sequence > 0 {
            return Err(Error::Log {
                path: first.log.path.clone(),
                source: LogError::Unsealed {
                    end: first.scan.end.end,
                },
            });
        }
        Ok(())
    }

    /// Reads a log. `made` says whether it is certain that its creator had made it durable.
    fn scan(&self, log: LogFile, made: bool) -> Result<RecoveredLog> {
        let log = Arc::new(log);
        if log.clock.is_some() != self.meta.header.window.is_some() {
            // Whose keys would have another age than they have, or none.
            return Err(Error::Log {
                path: log.path.clone(),
                source: LogError::Header,
            });
        }
        let scan = scan(&log, &self.meta.header)?;
        if made || scan.end.end > RECORDS_OFFSET {
            LogReader::new(&log)?.check_length()?;
        } else if self.write {
            log.forget_lost_length()?;
        }
        if self.write {
            log.make_durable(scan.end.end)?;
        }
        Ok(RecoveredLog {
            log,
            scan,
            loaded: false,
        })
    }
}

/// Makes durable what recovery has just relied on in the store file. Unless the store was closed cleanly, this rewrites
/// the superblock: the sync that was to make it durable may have failed, and the result of a later sync then proves
/// nothing about it.
pub(crate) fn make_superblock_durable(
    options: &OpenOptions,
    path: &Path,
    file: &dyn StorageFile,
    meta: &Meta,
) -> Result<()> {
    let superblock = &meta.superblock;
    let logs = [superblock.generation - 1, superblock.generation];
    let mut closed = !superblock.log_expected;
    for log in logs.map(|generation| log_path(path, generation)) {
        let there = options.storage.exists(&log);
        closed &= !there.map_err(|error| Error::io("look for the log", &log, error))?;
    }
    if !closed {
        // It may report past failures, and does so only once.
        let _ = file.sync();
        return write_superblock(file, path, &meta.header, superblock);
    }
    let synced = file.sync();
    synced.map_err(|error| Error::sync("sync the store", path, error))
}
