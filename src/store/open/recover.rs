//! Recovery by the first to open a store: what the logs say, and going on from there (FORMAT.md,
//! "Recovery").

use std::path::Path;
use std::sync::Arc;

use crate::buffer::{self, Buffer, COMMITTED, Claim};
use crate::error::{Error, Result};
use crate::file::superblock::{Commits, WRITERS_ROOM, writers_bytes};
use crate::log::file::sync_parent;
use crate::log::{LogError, LogFile, log_path};
use crate::page::Kind;
use crate::store::checkpoint::counting_pass::replay_journal;
use crate::store::checkpoint::run::Checkpointer;
use crate::store::config::options::Options;
use crate::store::coordination::handle::Handle;
use crate::store::coordination::place::Place;
use crate::store::coordination::shm::Coordination;
use crate::store::engine::Engine;
use crate::store::engine::recovery_report::RecoveryReport;
use crate::store::generation::Generation;
use crate::store::generation::buffer_pool::make_buffer;
use crate::store::generation::count_stream::for_each_operation;
use crate::store::generation::hash_stream::for_each_committed;
use crate::store::generation::log_summary::{LogSummary, scan};
use crate::store::storefile::meta::{Meta, room_after};
use crate::store::storefile::store_file::{StoreFile, write_superblock};
use crate::store::view::ViewCell;
use crate::store::write::Writer;
use crate::sys::storage::{Storage, StorageFile};

/// Goes on with what recovery has found.
pub(crate) struct Resumption<'a> {
    options: &'a Options,
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

    /// Goes on with what recovery has found: with an interrupted checkpoint, in the background; and
    /// before anything else with logs that memory has no room for, from the logs themselves.
    pub(crate) fn resume(&self, recovered: Recovered, overflow: bool) -> Result<()> {
        self.views.cell.load().leave_sum(self.shared);
        if self.file.is_counting() && recovered.sealed.is_some() {
            let replayed = replay_journal(self.file);
            self.handle.poison_on_failure(replayed)?;
        }
        if !overflow {
            return match self.shared.settled() < self.shared.active() {
                true => self.resume_checkpoint(),
                false => Ok(()),
            };
        }
        match &recovered.sealed {
            Some(found) if !found.loaded => {
                self.checkpointer.settle_from_log(&found.log)?;
            }
            _ => self.checkpointer.settle_all(self.options.timeout)?,
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
            self.checkpointer.settle_from_log(&found.log)?;
        }
        Ok(())
    }

    /// A page that is damaged keeps nobody from opening the store and looking at the others.
    pub(crate) fn resume_checkpoint(&self) -> Result<()> {
        match self.checkpointer.start_checkpoint() {
            Err(Error::Format { .. }) => Ok(()),
            outcome => outcome,
        }
    }
}

/// What the logs of a store hold.
pub(crate) struct Recovered {
    /// The closed generation whose checkpoint is due. `None` in its place for a buffer if the
    /// grant has no room for its keys.
    pub(crate) sealed: Option<RecoveredLog>,
    /// The generation that takes new keys, if it has a log.
    pub(crate) active: Option<RecoveredLog>,
    /// The number of the active generation.
    pub(crate) number: u64,
    pub(crate) next_handle: u64,
    pub(crate) commit_sequence: u64,
    pub(crate) writers_bytes: u64,
}

impl Recovered {
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

/// A generation that was found on disk.
pub(crate) struct RecoveredLog {
    pub(crate) log: Arc<LogFile>,
    pub(crate) scan: LogSummary,
    /// Its keys are in a buffer. Else they must go from the log into the pages.
    loaded: bool,
}

/// Reads the logs; a writer also removes what does not count.
pub(crate) fn recover(
    options: &Options,
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
    options: &'a Options,
    place: &'a Place,
    meta: &'a Meta,
    write: bool,
}

impl Recovery<'_> {
    fn run(&self) -> Result<Recovered> {
        let recovered = self.read()?;
        if self.write {
            let generation = self.meta.superblock.generation;
            // Its checkpoint was done, and the removal of its name not yet durable.
            self.remove_log(generation - 1)?;
            let is_none = recovered.sealed.is_none() && recovered.active.is_none();
            self.refuse_later_logs(generation + u64::from(!is_none))?;
        }
        Ok(recovered)
    }

    fn read(&self) -> Result<Recovered> {
        let superblock = &self.meta.superblock;
        let generation = superblock.generation;
        let Some(first) = self.open_first(generation)? else {
            return self.outcome(None, None, generation);
        };
        let first = self.scan(first)?;
        let Some(cut) = first.scan.cut.clone() else {
            self.expect_no_checkpoint(&first)?;
            self.expect_no_commits_after(&first)?;
            if self.write {
                // Made by a rotation that did not come to close this one: it never counted.
                self.remove_log(generation + 1)?;
            }
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
        let second = self.scan(second)?;
        if second.scan.cut.is_some() {
            return Err(second.nonsense("it is closed, and the log before it is still there"));
        }
        self.outcome(Some(first), Some(second), generation + 1)
    }

    /// Refuses to begin beside a log that no crash of this store can have left, and whose name it would need one
    /// day: of a store that this file has taken the place of. `last` is the last generation that may have one.
    fn refuse_later_logs(&self, last: u64) -> Result<()> {
        for number in self.place.numbers("-log.")? {
            let path = log_path(self.place, number);
            if number > last && self.place.is_ours(&path, number)? {
                return Err(Error::LeftoverLog { path });
            }
        }
        Ok(())
    }

    fn outcome(
        &self,
        sealed: Option<RecoveredLog>,
        active: Option<RecoveredLog>,
        number: u64,
    ) -> Result<Recovered> {
        let superblock = &self.meta.superblock;
        let mut commits: Commits = superblock.commits.clone();
        let mut commit_sequence = superblock.commit_sequence;
        let mut handle = 0;
        for found in sealed.iter().chain(&active) {
            commits.extend(found.scan.commits.clone());
            commit_sequence = commit_sequence.max(found.scan.commit_sequence);
            handle = handle.max(found.scan.handle);
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
        })
    }

    fn missing(&self, generation: u64) -> Error {
        Error::Log {
            path: log_path(self.place, generation),
            source: LogError::Missing { generation },
        }
    }

    /// The log of the superblock's own generation.
    fn open_first(&self, generation: u64) -> Result<Option<LogFile>> {
        // A checkpoint of it had begun: an older superblock does not know of its log.
        let begun = self.has_begun(generation);
        let expected = self.meta.superblock.log_expected || begun;
        match self.open_log(generation) {
            Ok(None) if expected => Err(self.missing(generation)),
            // Half made when its maker died, which had told nobody yet.
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

    /// Removes a log of this store's that counts no more.
    fn remove_log(&self, generation: u64) -> Result<()> {
        let storage: &dyn Storage = &*self.options.storage;
        let path = log_path(self.place, generation);
        let id = &self.meta.header.store_id;
        if LogFile::is_of_another(storage, self.place, id, generation) {
            return Err(Error::LeftoverLog { path });
        }
        let failed = |error| Error::io("remove a log that has done its service", &path, error);
        if storage.exists(&path).map_err(failed)? {
            match storage.remove(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                outcome => outcome.map_err(failed)?,
            }
            sync_parent(storage, &path)?;
        }
        Ok(())
    }

    /// Whether an intent says that the checkpoint of this generation was interrupted.
    fn has_begun(&self, generation: u64) -> bool {
        let intent = self.meta.intent.as_ref();
        intent.is_some_and(|intent| intent.generation == generation)
    }

    /// A checkpoint begins only when the record that closes the log is durable.
    fn expect_no_checkpoint(&self, found: &RecoveredLog) -> Result<()> {
        if self.has_begun(self.meta.superblock.generation) {
            return Err(Error::Log {
                path: found.log.path.clone(),
                source: LogError::Unsealed {
                    end: found.scan.end.end,
                },
            });
        }
        Ok(())
    }

    /// A commit makes the log before durable, and only then writes its mark.
    fn expect_no_commits_after(&self, first: &RecoveredLog) -> Result<()> {
        let storage = &*self.options.storage;
        let id = &self.meta.header.store_id;
        let next = first.log.generation + 1;
        let Ok(Some(next)) = LogFile::open(storage, self.place, id, next, false) else {
            return Ok(());
        };
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

    fn scan(&self, log: LogFile) -> Result<RecoveredLog> {
        let log = Arc::new(log);
        let scan = scan(&log, &self.meta.header)?;
        if self.write {
            make_durable(&log, scan.end.end)?;
        }
        Ok(RecoveredLog {
            log,
            scan,
            loaded: false,
        })
    }
}

impl RecoveredLog {
    fn nonsense(&self, reason: &'static str) -> Error {
        Error::Log {
            path: self.log.path.clone(),
            source: LogError::Nonsense {
                offset: self.scan.cut_offset,
                reason,
            },
        }
    }

    /// A generation with the committed keys of the log in its buffer; `None` if a buffer of so many
    /// bytes has no room for them.
    pub(crate) fn load(
        &mut self,
        meta: &Meta,
        path: &Place,
        shared: bool,
        bytes: u64,
    ) -> Result<Option<Generation>> {
        let counts = meta.header.kind == Kind::Counting;
        // Of a counting store the same keys may come over and over.
        if !counts && self.scan.committed_keys > buffer::limit_of(bytes) {
            return Ok(None);
        }
        let memory = make_buffer(path, shared, bytes, self.log.generation)?;
        let has_room = match counts {
            true => fill_nets(&memory, self)?,
            false => fill(&memory, self)?,
        };
        if !has_room {
            return Ok(None);
        }
        self.loaded = true;
        memory.set_room(room_after(&meta.header, &meta.superblock, None));
        memory.set_durable(self.scan.end.end);
        memory.set_applied(self.scan.end.end);
        let generation = Generation::new(memory);
        generation.set_log_end(self.scan.end);
        generation.set_log(Arc::clone(&self.log));
        if self.scan.cut.is_some() {
            generation.buffer.set_sealed();
        }
        Ok(Some(generation))
    }
}

/// Makes durable what has just been believed of the store file. Unless the store was closed as it
/// should be, the superblock is written once more: the sync that was to make it durable may have
/// failed, and what the next one says of it then is worth nothing.
pub(crate) fn make_superblock_durable(
    options: &Options,
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
        // Of failures that are past, which it may tell of once.
        let _ = file.sync();
        return write_superblock(file, path, &meta.header, superblock);
    }
    let synced = file.sync();
    synced.map_err(|error| Error::sync("sync the store", path, error))
}

/// What a killed process left in the page cache must not count today and be gone tomorrow. It is
/// written once more, not only synced, for it may have been killed after a sync that failed.
fn make_durable(log: &LogFile, end: u64) -> Result<()> {
    log.write_again(0..end)?;
    let synced = log.file.sync();
    synced.map_err(|error| Error::sync("sync the log", &log.path, error))
}

/// The same of a counting store.
fn fill_nets(memory: &Buffer, found: &RecoveredLog) -> Result<bool> {
    let mut fits = true;
    for_each_operation(&found.log, |hash, by| match memory.mark(hash) {
        Some(slot) => memory.count(slot, by),
        None => fits = false,
    })?;
    memory.unmark_all();
    Ok(fits)
}

/// Whether all committed keys of the log had room.
fn fill(memory: &Buffer, found: &RecoveredLog) -> Result<bool> {
    let mut keys = 0;
    let mut fits = true;
    let mut claim = |hash| match memory.claim(hash) {
        Claim::Claimed(slot) => {
            memory.publish(slot, COMMITTED);
            keys += 1;
        }
        // They crowd a few buckets, which an honest hash does not make them do.
        Claim::NoRoom => fits = false,
        Claim::Settled | Claim::Open(_) => {}
    };
    // Each is fetched some keys before it is claimed: the table is larger than any cache.
    let mut ahead = [0; AHEAD];
    let mut count = 0;
    for_each_committed(&found.log, &found.scan.committed, |hash| {
        memory.prefetch(hash);
        let before = std::mem::replace(&mut ahead[count % AHEAD], hash);
        if count >= AHEAD {
            claim(before);
        }
        count += 1;
    })?;
    let rest = count.min(AHEAD);
    (count - rest..count).for_each(|place| claim(ahead[place % AHEAD]));
    memory.set_keys(keys);
    Ok(fits)
}

/// Keys that are fetched before the first of them is claimed.
const AHEAD: usize = 32;
