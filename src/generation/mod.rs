//! A generation: a write buffer and the log of the same operations.

pub(crate) mod buffer_pool;
pub(crate) mod count_stream;
pub(crate) mod hash_stream;
pub(crate) mod log_files;
pub(crate) mod log_summary;
pub(crate) mod log_window;
pub(crate) mod sampling;

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::memtable::{Buffer, ShmCorruption};
use crate::page::KeyModel;
use crate::shm::buffer_sizes::BufferSizes;
use crate::shm::fsync_failures::{FsyncFailures, SeenFailures};
use crate::shm::place::Place;
use crate::shm::shm_files::buffer_path;
use crate::sys::lock;
use crate::wal::file::RECORDS_OFFSET;
use crate::wal::{LogEnd, LogError, LogFile, LogReader, LogWriter};

/// A thread waits for others to share the next sync for at most the duration of the last sync divided by this.
const CLAIM_PATIENCE: u32 = 2;

/// One generation, as this handle sees it.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) buffer: Buffer,
    /// Opened when it is first needed, which never happens in a reader.
    log: OnceLock<Arc<LogFile>>,
    syncing: Syncing,
    reported: SeenFailures,
}

impl Generation {
    pub(crate) fn new(buffer: Buffer) -> Self {
        Self {
            buffer,
            log: OnceLock::new(),
            syncing: Syncing::default(),
            reported: SeenFailures::default(),
        }
    }

    /// Opens the generation `number` of a store, whose buffer another handle has created in one of the `sizes`.
    pub(crate) fn attach(
        store: &Place,
        number: u64,
        sizes: BufferSizes,
        model: KeyModel,
        write: bool,
    ) -> Result<Self> {
        let path = buffer_path(store, number);
        let opened = Buffer::open(store.folder(), &path, number, write);
        let buffer = opened.map_err(|error| Error::io("open the write buffer", &path, error))?;
        sizes.expect(&buffer).map_err(|wrong| wrong.at(store))?;
        Ok(Self::new(buffer.holding(model)))
    }

    pub(crate) fn number(&self) -> u64 {
        self.buffer.generation()
    }

    /// Returns whether there is a log.
    pub(crate) fn has_log(&self) -> bool {
        self.buffer.tail().end != 0
    }

    /// Keeps a log that was just created or recovered.
    pub(crate) fn set_log(&self, log: Arc<LogFile>) {
        // Its records would be taken for those of another buffer.
        assert_eq!(log.generation, self.number());
        if let Some(clock) = log.clock {
            self.buffer.set_clock(clock);
        }
        let _ = self.log.set(log);
    }

    /// Takes over a log that is durable up to `end` and whose records are in the buffer.
    pub(crate) fn adopt_log(&self, log: Arc<LogFile>, end: LogEnd) {
        // Keys in one generation's buffer and another's log would be dropped with the one or the other.
        assert_eq!(log.generation, self.number());
        assert!(end.end >= RECORDS_OFFSET, "{end:?}");
        self.set_log(log);
        self.buffer.set_durable(end.end);
        self.buffer.set_applied(end.end);
        // This comes last: from here on, other handles see the log too.
        self.set_log_end(end);
    }

    /// Returns the log. Opens it with `open` if it is not open yet.
    pub(crate) fn log(&self, open: impl FnOnce() -> Result<LogFile>) -> Result<&Arc<LogFile>> {
        if let Some(log) = self.log.get() {
            return Ok(log);
        }
        let opened = Arc::new(open()?);
        // What is appended to it is what this buffer has (I3).
        assert_eq!(opened.generation, self.number());
        Ok(self.log.get_or_init(|| opened))
    }

    /// Returns the log, if it was recovered or is open by now.
    pub(crate) fn recovered_log(&self) -> Option<&Arc<LogFile>> {
        self.log.get()
    }

    /// Returns where the next record goes.
    pub(crate) fn log_end(&self) -> LogEnd {
        let tail = self.buffer.tail();
        LogEnd {
            end: tail.end,
            previous: tail.previous,
            allocated: self.buffer.allocated(),
        }
    }

    /// Publishes that the records up to `at` are complete.
    pub(crate) fn set_log_end(&self, at: LogEnd) {
        self.buffer.set_allocated(at.allocated);
        self.buffer.set_tail(crate::memtable::Tail {
            end: at.end,
            previous: at.previous,
        });
    }

    /// Appends to the log, whose end is `at`, and publishes the new end. On an error the end stays where it was. The
    /// caller holds the writer lock.
    pub(crate) fn append(
        &self,
        log: &LogFile,
        at: &mut LogEnd,
        scratch: &mut Vec<u8>,
        write: impl FnOnce(&mut LogWriter<'_>) -> Result<()>,
    ) -> Result<()> {
        // Where another generation's records end says nothing of this log.
        assert_eq!(log.generation, self.number());
        let mut next = *at;
        let mut writer = LogWriter {
            log,
            at: &mut next,
            scratch,
        };
        // Success is constructed anew rather than passed on: copying the outcome, which is as large as an error, would
        // have to wait for everything that was just stored.
        match write(&mut writer) {
            Ok(()) => {
                assert!(at.end <= next.end, "{at:?} {next:?}");
                self.set_log_end(next);
                *at = next;
                Ok(())
            }
            Err(error) => {
                at.allocated = next.allocated;
                self.buffer.set_allocated(next.allocated);
                Err(error)
            }
        }
    }

    /// Makes the log durable up to `end`. Threads that arrive together share one sync.
    pub(crate) fn sync_to(&self, log: &LogFile, end: u64) -> Result<()> {
        self.check_durable(log)?;
        match self.syncing.turn(|| self.buffer.durable() >= end) {
            None => Ok(()),
            Some(turn) => turn.sync(|| self.sync(log)),
        }
    }

    /// Does the same for a commit whose record ends at `end`, and notes in the log that it is durable. The caller knows
    /// that end from its own memory: the shared words may be damaged, and a note that says too much accuses a sound log.
    pub(crate) fn sync_commit(&self, log: &LogFile, end: u64) -> Result<()> {
        self.sync_to(log, end)?;
        // A handle that notes more has raised this word before. If it is wrong, the note is at worst a lower one.
        let ahead = self.buffer.durable() > end;
        log.note_durable(end, ahead);
        Ok(())
    }

    /// Checks that the durable part does not exceed the log.
    fn check_durable(&self, log: &LogFile) -> Result<()> {
        // The order matters: the end moves on meanwhile.
        let durable = self.buffer.durable();
        let reported = ShmCorruption::unless_in("durable", 0..=self.buffer.furthest_end(), durable);
        reported.map_err(|wrong| wrong.at(&log.path))
    }

    fn sync(&self, log: &LogFile) -> Result<()> {
        let tail = self.log_end();
        let (failures, mended) = self.buffer.failures();
        FsyncFailures::new(failures, mended).sync(
            &*log.file,
            &self.reported,
            // Also what came since: a sync that failed meanwhile was to write that too, and counts as mended with the rest.
            || write_again(log, self.buffer.durable(), self.log_end()),
            |error| Error::sync("sync the log", &log.path, error),
        )?;
        self.buffer.set_durable(tail.end);
        Ok(())
    }
}

/// Lets one thread sync while all threads that arrive meanwhile wait for it together. A lock would make them wait for
/// each other one by one, and would often go to the thread that just had it.
#[derive(Debug, Default)]
struct Syncing {
    now: Mutex<Now>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    busy: bool,
    /// The threads that have asked for a sync so far, and how many of them had asked when the last sync began.
    asked: u64,
    covered: u64,
    /// As many threads as the last sync served, or as arrived meanwhile, are likely to share the next one.
    expected: u64,
    /// The duration of the last sync.
    took: Duration,
}

/// The right to sync.
struct Turn<'a>(&'a Syncing);

impl Syncing {
    /// Waits for a turn; returns `None` as soon as the work of that turn has been done.
    fn turn(&self, is_done: impl Fn() -> bool) -> Option<Turn<'_>> {
        let mut now = lock(&self.now);
        now.asked += 1;
        loop {
            if is_done() {
                return None;
            }
            if !now.busy {
                now.busy = true;
                return Some(Turn(self));
            }
            let woken = self.over.wait(now);
            now = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Turn<'_> {
    /// Syncs for all threads that have asked, and for those that are likely to ask: the threads that the last sync
    /// served. Otherwise there would be two groups that wait for each other's syncs. A thread that is alone waits for
    /// no other, and no thread waits for longer than a part of a sync.
    fn sync(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut begun = Instant::now();
        let mut now = lock(&self.0.now);
        while now.asked - now.covered < now.expected && begun.elapsed() < now.took / CLAIM_PATIENCE
        {
            drop(now);
            std::thread::yield_now();
            now = lock(&self.0.now);
        }
        let before = now.covered;
        assert!(now.busy && before <= now.asked, "two threads have the turn");
        now.covered = now.asked;
        drop(now);
        begun = Instant::now();
        let outcome = sync();
        let mut now = lock(&self.0.now);
        now.expected = now.asked - before;
        now.took = begun.elapsed();
        outcome
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.now).busy = false;
        self.0.over.notify_all();
    }
}

/// Writes the records from `durable` on again, after a failed sync.
///
/// # Errors
/// [`LogError::Lost`] if the system has discarded what was written there before.
fn write_again(log: &LogFile, durable: u64, tail: LogEnd) -> Result<()> {
    let mut reader = LogReader::resume(log, durable.max(RECORDS_OFFSET), tail)?;
    while reader.end() < tail.end {
        if reader.next()?.is_none() {
            return Err(reader.wrong(LogError::Lost {
                offset: reader.end(),
            }));
        }
    }
    log.write_again(durable..tail.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(syncing: &Syncing) -> u64 {
        lock(&syncing.now).expected
    }

    /// Checks what each of several successive syncs covers, with another thread that asks during the first and then
    /// stays away.
    #[test]
    fn who_asks_during_a_sync_shares_the_next_and_who_stays_away_is_forgotten() {
        let syncing = Syncing::default();
        let sync = |meanwhile: u64| {
            let turn = syncing.turn(|| false).unwrap();
            let synced = turn.sync(|| {
                lock(&syncing.now).asked += meanwhile;
                Ok(())
            });
            synced.unwrap();
        };
        sync(0);
        assert_eq!(expected(&syncing), 1);
        sync(1);
        assert_eq!(expected(&syncing), 2);
        // The thread that asked is covered now; no other asked.
        sync(0);
        assert_eq!(expected(&syncing), 2);
        // The sync waits for it in vain, but only once.
        sync(0);
        assert_eq!(expected(&syncing), 1);
    }

    #[test]
    fn what_others_have_synced_needs_no_turn() {
        let syncing = Syncing::default();
        assert!(syncing.turn(|| true).is_none());
        let turn = syncing.turn(|| false).unwrap();
        let failed = turn.sync(|| Err(Error::Closed));
        assert!(matches!(failed, Err(Error::Closed)));
        drop(turn);
        assert!(syncing.turn(|| false).is_some());
    }
}
