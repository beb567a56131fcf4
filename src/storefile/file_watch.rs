//! Whether the file that a handle reads is still the one that has the store's name, and whether somebody has written to
//! it since.
//!
//! A handle that writes needs none of this: it looks at the names before each commit and checkpoint, and its locks keep
//! others from replacing what it relies on.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::file::Header;
use crate::file::layout::{PAGES_OFFSET, SEQUENCE_OFFSETS};
use crate::page::PAGE_BYTES;
use crate::shm::handle::Handle;
use crate::shm::place::Place;
use crate::storefile::store_file::StoreFile;
use crate::sys::storage::{StorageFile, read_exact_at};
use crate::sys::{FileId, Map};
use crate::wal::LogFile;
use crate::wal::file::RECORDS_OFFSET;

/// How long a handle that looks up keys goes on without a look at the name.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// How many keys a thread looks up before it reads the clock, which takes as long as looking up one of them.
const KEYS_BETWEEN_CLOCKS: usize = 64;

/// The bytes behind the last record of a log that are compared: more than the head of a record.
const PEEKED: usize = 64;

thread_local! {
    /// The keys that this thread has looked up since it read the clock, in whichever stores.
    static KEYS: Cell<usize> = const { Cell::new(0) };
}

/// Where the name of a store leads, for a handle that reads the file which had that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameTarget {
    /// To the file that is open.
    Same,
    /// To the same file by its number, and to the same store; but the map shows other bytes than a read. That is what an
    /// overlay file system does with a file of a lower layer, which it copies when somebody opens it for writing.
    CopiedUp,
    /// To another file, or to another state of the store than one that could follow the one that was read.
    Another,
    Nowhere,
}

/// What a handle that only reads keeps of its file. It is created under the open-close lock.
#[derive(Debug)]
pub(crate) struct FileWatch {
    file: Arc<dyn StorageFile>,
    /// The header and both superblocks, as look-ups see the pages: through a map.
    front: Map,
    /// The sequences of both superblocks.
    first: [u64; 2],
    log: Option<LogEnding>,
    opened: Instant,
    /// When to look at the name again, in milliseconds since then.
    due: AtomicU64,
}

/// What lies behind the end of a log that was read, which a killed writer left. The next writer goes on there, and writes no
/// superblock before.
#[derive(Debug)]
struct LogEnding {
    log: Arc<LogFile>,
    end: u64,
    behind: Vec<u8>,
}

impl FileWatch {
    pub(crate) fn of(file: &Arc<dyn StorageFile>, place: &Place) -> Result<Self> {
        let failed = |error| Error::io("map the superblocks of", place, error);
        let front = file.map(0, PAGES_OFFSET).map_err(failed)?;
        // Both superblocks begin in it.
        assert_eq!(front.len() as u64 * 8, PAGES_OFFSET);
        let mut watch = Self {
            file: Arc::clone(file),
            front,
            first: [0; 2],
            log: None,
            opened: Instant::now(),
            due: AtomicU64::new(BETWEEN_LOOKS.as_millis() as u64),
        };
        watch.first = watch.sequences();
        Ok(watch)
    }

    /// Returns the sequences of both superblocks. They are not checked: that they differ from others is all that they may
    /// be used for. Mostly this takes no call of the system. On file systems that make reading through a map unsafe or
    /// copy files up, it takes two.
    #[inline]
    fn sequences(&self) -> [u64; 2] {
        if self.front.spares_holes() {
            // What can't be read has not changed as far as anybody knows.
            return sequences_in(&*self.file).unwrap_or(self.first);
        }
        SEQUENCE_OFFSETS.map(|offset| self.front.word(offset as usize / 8))
    }

    /// Returns whether a superblock was written since the handle was opened. The first key that a later writer
    /// acknowledges comes after one, unless it goes on with a log that was there.
    #[inline]
    pub(crate) fn has_new_superblock(&self) -> bool {
        self.sequences() != self.first
    }

    /// Keeps what lies behind the end of the log that the handle has read. The caller keeps writers from opening the store.
    pub(crate) fn note_log(&mut self, log: &Arc<LogFile>, end: u64) -> Result<()> {
        // What is compared lies behind its records, and the note in its head changes.
        assert!(end >= RECORDS_OFFSET, "{end}");
        self.log = Some(LogEnding {
            log: Arc::clone(log),
            end,
            behind: read_behind(log, end)?,
        });
        Ok(())
    }

    /// Returns whether the handle has read a log.
    #[inline]
    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Returns whether somebody has written behind the end of the log that the handle has read.
    pub(crate) fn has_longer_log(&self) -> Result<bool> {
        match &self.log {
            Some(LogEnding { log, end, behind }) => Ok(read_behind(log, *end)? != *behind),
            None => Ok(false),
        }
    }

    /// Returns whether the map shows less than a read. Superblocks only gain in sequence.
    fn is_behind(&self) -> io::Result<bool> {
        let written = sequences_in(&*self.file)?;
        let mut mapped = SEQUENCE_OFFSETS.iter().zip(written);
        // A place that is written is no hole in the same file.
        Ok(mapped.any(|(offset, written)| {
            written > 0 && self.front.word(*offset as usize / 8) < written
        }))
    }

    /// Counts keys that a thread is about to look up, and returns whether it is time to look at the name.
    #[inline]
    pub(crate) fn is_due_after(&self, keys: usize) -> bool {
        let counted = KEYS.get().saturating_add(keys);
        let reads_clock = counted >= KEYS_BETWEEN_CLOCKS;
        KEYS.set(if reads_clock { 0 } else { counted });
        reads_clock && self.is_due()
    }

    fn is_due(&self) -> bool {
        let now = self.opened.elapsed().as_millis() as u64;
        if now < self.due.load(Ordering::Relaxed) {
            return false;
        }
        // Other threads may look as well, which does no harm.
        let next = now.saturating_add(BETWEEN_LOOKS.as_millis() as u64);
        self.due.store(next, Ordering::Relaxed);
        true
    }
}

fn read_behind(log: &LogFile, end: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; PEEKED];
    let read = log.file.read_at(&mut bytes, end);
    let read = read.map_err(|error| Error::io("read the log", &log.path, error))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads the sequences of both superblocks without a map.
fn sequences_in(file: &dyn StorageFile) -> io::Result<[u64; 2]> {
    let mut sequences = [0; 2];
    for (sequence, offset) in sequences.iter_mut().zip(SEQUENCE_OFFSETS) {
        let mut bytes = [0; 8];
        read_exact_at(file, &mut bytes, offset)?;
        *sequence = u64::from_le_bytes(bytes);
    }
    Ok(sequences)
}

impl StoreFile {
    /// Fails if the store's name does not lead to the file that a handle reads, or leads to a state of the store from
    /// before the superblock of this sequence, which the handle has read. The handle can't go on then. A handle that
    /// writes finds out by itself.
    ///
    /// # Errors
    /// [`Error::Moved`], [`Error::Replaced`].
    pub(crate) fn expect_name(&self, handle: &Handle, known: u64) -> Result<()> {
        if handle.writes() {
            return Ok(());
        }
        if let Some(lost) = handle.lost_name() {
            return Err(lost);
        }
        match self.name_target(handle.locks.id(), known)? {
            NameTarget::Same => Ok(()),
            NameTarget::CopiedUp | NameTarget::Another => Err(handle.lose_name(true)),
            NameTarget::Nowhere => Err(handle.lose_name(false)),
        }
    }

    /// Returns where the store's name leads, seen from the file `id` that is open here.
    pub(crate) fn name_target(&self, id: FileId, known: u64) -> Result<NameTarget> {
        match self.place.state()? {
            None => return Ok(NameTarget::Nowhere),
            Some(found) if found.id != id => return Ok(NameTarget::Another),
            Some(_) => {}
        }
        let failed = |error| Error::io("read", &self.place, error);
        if self.is_another_store().map_err(failed)? {
            return Ok(NameTarget::Another);
        }
        let Some(watch) = &self.watch else {
            return Ok(NameTarget::Same);
        };
        let newest = sequences_in(&*self.raw).map_err(failed)?;
        if newest.iter().all(|sequence| *sequence < known) {
            return Ok(NameTarget::Another);
        }
        match watch.is_behind().map_err(failed)? {
            true => Ok(NameTarget::CopiedUp),
            false => Ok(NameTarget::Same),
        }
    }

    /// Returns whether somebody has written another store into the file. A header that is damaged says nothing.
    fn is_another_store(&self) -> io::Result<bool> {
        let mut page = vec![0; PAGE_BYTES];
        match read_exact_at(&*self.raw, &mut page, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            outcome => outcome?,
        }
        let found = Header::decode(&page, self.raw.length()?);
        Ok(found.is_ok_and(|found| found.store_id != self.header.store_id))
    }
}
