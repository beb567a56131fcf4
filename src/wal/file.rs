//! A log file: its header and its durability.

use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::LogError;
use super::note::{NOTE_BYTES, NOTE_OFFSET, Note};
use crate::codec::{Decoder, Encoder, put_u32, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::file::layout::MAX_COUNTER;
use crate::file::side_file::LOG;
use crate::hash::finalise;
use crate::page::ages::MOST_CLOCK;
use crate::sys::storage::{Storage, StorageFile, read_exact_at, write_all_at};
use crate::sys::{FileId, lock, state_of};

pub(crate) const LOG_MAGIC: [u8; 8] = *b"EVERSLOG";
pub(crate) const LOG_VERSION: u32 = 1;
/// The version of a log that says when it began: that of a store that forgets.
pub(crate) const CLOCKED_LOG_VERSION: u32 = 2;
pub(crate) const LOG_CRC_OFFSET: usize = 12;
/// Bytes in the log's header.
pub(crate) const LOG_HEADER_BYTES: usize = 64;
/// Bytes in the header of a log that says when it began.
pub(crate) const CLOCKED_HEADER_BYTES: usize = LOG_HEADER_BYTES + 8;
/// Offset of the first record.
pub(crate) const RECORDS_OFFSET: u64 = 4096;

const _: () = assert!(LOG_HEADER_BYTES == 8 + 4 + 4 + 16 + 16 + 8 + 8);
/// The header is whole or not there; the note lies in the next sector, and what a torn note leaves is no header.
const _: () = assert!(CLOCKED_HEADER_BYTES as u64 <= NOTE_OFFSET);
const _: () = assert!(NOTE_OFFSET + NOTE_BYTES as u64 <= RECORDS_OFFSET);

/// Returns the path of the log of generation `generation` of the store at `store`.
pub(crate) fn log_path(store: &Path, generation: u64) -> PathBuf {
    let mut name = OsString::from(store);
    name.push(format!("{LOG}{generation}"));
    name.into()
}

/// What a new log begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogBegin {
    pub(crate) generation: u64,
    pub(crate) moment: u64,
    pub(crate) clock: Option<u64>,
}

/// An open log.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) path: PathBuf,
    pub(crate) generation: u64,
    pub(crate) salt: [u8; 16],
    /// The moment of the superblock whose generation this log has, or 0 if it has none.
    pub(crate) moment: u64,
    /// The time at which it began, which is that of all its keys; `None` in a store that does not forget.
    pub(crate) clock: Option<u64>,
    /// The CRC of the log's header. The first record names it as its predecessor's CRC.
    pub(crate) header_crc: u32,
    /// The identity of the file, where the system provides one.
    pub(crate) id: Option<FileId>,
    /// The note as it was last read or written through this handle. Held while it is written, so that of two threads
    /// the one with the lower end does not write last.
    pub(crate) noted: Mutex<Option<Note>>,
}

impl LogFile {
    /// Creates a log with room for `length` bytes and makes its name and header durable.
    pub(crate) fn create(
        storage: &dyn Storage,
        store: &Path,
        store_id: &[u8; 16],
        begin: LogBegin,
        length: u64,
    ) -> Result<Self> {
        let generation = begin.generation;
        // No superblock is of generation 0, so recovery would not look for the log.
        assert!(generation > 0);
        assert!(generation <= MAX_COUNTER, "{generation}");
        let path = log_path(store, generation);
        let file = storage
            .create_new(&path)
            .map_err(|error| Error::io("create the log", &path, error))?;
        let made = Self::initialise(file, path.clone(), store_id, begin, length)
            .and_then(|log| sync_parent(storage, &path).map(|()| log));
        if made.is_err() {
            // Nothing refers to the file yet.
            let _ = storage.remove(&path);
        }
        made
    }

    fn initialise(
        file: Arc<dyn StorageFile>,
        path: PathBuf,
        store_id: &[u8; 16],
        begin: LogBegin,
        length: u64,
    ) -> Result<Self> {
        let LogBegin {
            generation,
            moment,
            clock,
        } = begin;
        let mut salt = [0; 16];
        getrandom::fill(&mut salt)
            .map_err(|error| Error::io("draw a salt for the log", &path, error.into()))?;
        let header = encoded_header(store_id, &salt, begin);
        let crc = u32_at(&header, LOG_CRC_OFFSET);
        file.allocate(length.max(RECORDS_OFFSET))
            .map_err(|error| Error::io("reserve room for the log", &path, error))?;
        write_all_at(&*file, &header, 0)
            .map_err(|error| Error::io("write the log's header", &path, error))?;
        let log = Self {
            id: id_of(&*file),
            file,
            path,
            generation,
            salt,
            moment,
            clock,
            header_crc: crc,
            noted: Mutex::default(),
        };
        let failed = |error| Error::io("write the log's header", &log.path, error);
        let length = log.file.length().map_err(failed)?;
        if length > RECORDS_OFFSET {
            // Where nothing was written, a sync need not cover the length.
            write_all_at(&*log.file, &[0; 8], length - 8).map_err(failed)?;
        }
        let synced = log.file.sync();
        synced.map_err(|error| Error::sync("sync the new log", &log.path, error))?;
        // Not before: a power cut could leave a note without a header, and the file would not be known for a log.
        let durable = RECORDS_OFFSET;
        let _ = Note { durable, length }.write(&log);
        Ok(log)
    }

    /// Notes that a sync has made the log durable up to `durable`. The log is no worse without the note, so a failure
    /// is none.
    ///
    /// With `ahead`, another handle may have noted more, and the note is read first. Otherwise what this handle has last
    /// read or written is the latest: a read would cost as much as the write.
    pub(crate) fn note_durable(&self, durable: u64, ahead: bool) {
        // A reader takes a lower one for no note at all, and damage for a torn end.
        assert!(durable >= RECORDS_OFFSET, "{durable}");
        let mut noted = lock(&self.noted);
        if noted.is_some_and(|note| note.durable >= durable) {
            return;
        }
        let last = noted.take().filter(|_| !ahead);
        let Some(held) = last.or_else(|| Note::read(self).ok()) else {
            return;
        };
        let note = Note { durable, ..held };
        *noted = match held.durable < durable {
            true => note.write(self).is_ok().then_some(note),
            false => Some(held),
        };
    }

    /// Forgets the noted length if the file is shorter. The caller knows that the log is empty and that nothing expects
    /// it: its creator died before the length was durable.
    pub(crate) fn forget_lost_length(&self) -> Result<()> {
        let failed = |error| Error::io("write the log's note", &self.path, error);
        let mut noted = lock(&self.noted);
        *noted = None;
        let held = Note::read(self)?;
        if held.length <= self.file.length().map_err(failed)? {
            return Ok(());
        }
        Note { length: 0, ..held }.write(self).map_err(failed)
    }

    /// Makes durable what a killed process left in the page cache, which must not count today and be gone tomorrow.
    /// Rewrites it instead of only syncing, because the process may have been killed after a sync that failed.
    pub(crate) fn make_durable(&self, end: u64) -> Result<()> {
        self.write_again(0..end)?;
        let synced = self.file.sync();
        synced.map_err(|error| Error::sync("sync the log", &self.path, error))?;
        self.note_durable(end, true);
        Ok(())
    }

    /// Returns the moment of the store once the keys of this log are in its pages.
    pub(crate) fn next_moment(&self) -> u64 {
        let mixed = [0, 8].into_iter().fold(finalise(self.moment), |mixed, at| {
            finalise(mixed.wrapping_add(u64_at(&self.salt, at)))
        });
        // 0 says nothing.
        mixed.max(1)
    }

    /// Opens the log of a generation; returns `None` if there is none.
    pub(crate) fn open(
        storage: &dyn Storage,
        store: &Path,
        store_id: &[u8; 16],
        generation: u64,
        write: bool,
    ) -> Result<Option<Self>> {
        let path = log_path(store, generation);
        let failed = |error| Error::io("read the log", &path, error);
        if !storage.exists(&path).map_err(failed)? {
            return Ok(None);
        }
        let file = match storage.open(&path, write) {
            // A checkpoint that has since finished removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let wrong = |source| Error::Log {
            path: path.clone(),
            source,
        };
        if file.length().map_err(failed)? < RECORDS_OFFSET {
            return Err(wrong(LogError::Header));
        }
        let mut front = [0; CLOCKED_HEADER_BYTES];
        read_exact_at(&*file, &mut front, 0).map_err(failed)?;
        let is_clocked = u32_at(&front, 8) == CLOCKED_LOG_VERSION;
        let header = match is_clocked {
            true => &front[..],
            false => &front[..LOG_HEADER_BYTES],
        };
        let crc = u32_at(header, LOG_CRC_OFFSET);
        if header[..8] != LOG_MAGIC || crc != header_checksum(header) {
            return Err(wrong(LogError::Header));
        }
        let (salt, got_generation) = Self::fields(header, store_id).map_err(wrong)?;
        let clock = is_clocked.then(|| u64_at(header, LOG_HEADER_BYTES));
        if clock > Some(MOST_CLOCK) {
            return Err(wrong(LogError::Header));
        }
        if got_generation != generation {
            return Err(wrong(LogError::WrongGeneration {
                expected: generation,
                got: got_generation,
            }));
        }
        Ok(Some(Self {
            id: id_of(&*file),
            file,
            path,
            generation,
            salt,
            moment: u64_at(header, 56),
            clock,
            header_crc: crc,
            noted: Mutex::default(),
        }))
    }

    /// Returns whether the file under the name of a generation's log belongs to another store. It may be that store's
    /// only copy of its keys.
    pub(crate) fn is_of_another(
        storage: &dyn Storage,
        store: &Path,
        store_id: &[u8; 16],
        generation: u64,
    ) -> bool {
        let opened = Self::open(storage, store, store_id, generation, false);
        let foreign = |source: &LogError| matches!(source, LogError::Foreign { .. });
        matches!(opened, Err(Error::Log { source, .. }) if foreign(&source))
    }

    /// Rewrites a range of bytes. After a failed sync, the page cache may hold pages that it considers clean but that
    /// never reached the disk.
    pub(crate) fn write_again(&self, range: Range<u64>) -> Result<()> {
        let mut bytes = vec![0; 1 << 18];
        let mut offset = range.start;
        let failed = |error| Error::io("rewrite the log", &self.path, error);
        while offset < range.end {
            let part = &mut bytes[..(range.end - offset).min(1 << 18) as usize];
            read_exact_at(&*self.file, part, offset).map_err(failed)?;
            write_all_at(&*self.file, part, offset).map_err(failed)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn fields(header: &[u8], store_id: &[u8; 16]) -> Result<([u8; 16], u64), LogError> {
        let version = u32_at(header, 8);
        if !(LOG_VERSION..=CLOCKED_LOG_VERSION).contains(&version) {
            return Err(LogError::UnsupportedVersion {
                expected: CLOCKED_LOG_VERSION,
                got: version,
            });
        }
        let mut input = Decoder::new(&header[16..48]);
        let (Some(id), Some(salt)) = (input.array::<16>(), input.array::<16>()) else {
            return Err(LogError::Header);
        };
        if id != *store_id {
            return Err(LogError::Foreign {
                expected: hexadecimal(store_id),
                got: hexadecimal(&id),
            });
        }
        Ok((salt, u64_at(header, 48)))
    }
}

/// Returns the file's identity, unless a layer lies between the file and the system.
fn id_of(file: &dyn StorageFile) -> Option<FileId> {
    state_of(file.as_file()?).ok().map(|state| state.id)
}

/// Makes the names in the parent folder of `path` durable.
pub(crate) fn sync_parent(storage: &dyn Storage, path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    storage
        .sync_folder(folder)
        .map_err(|error| Error::sync("sync the folder", folder, error))
}

/// Returns the header of a new log.
fn encoded_header(store_id: &[u8; 16], salt: &[u8; 16], begin: LogBegin) -> Vec<u8> {
    let mut header = Vec::with_capacity(CLOCKED_HEADER_BYTES);
    let mut out = Encoder::new(&mut header);
    out.bytes(&LOG_MAGIC)
        .u32(match begin.clock {
            Some(_) => CLOCKED_LOG_VERSION,
            None => LOG_VERSION,
        })
        .u32(0)
        .bytes(store_id)
        .bytes(salt)
        .u64(begin.generation)
        .u64(begin.moment);
    if let Some(clock) = begin.clock {
        assert!(clock <= MOST_CLOCK, "{clock}");
        out.u64(clock);
    }
    let crc = header_checksum(&header);
    put_u32(&mut header, LOG_CRC_OFFSET, crc);
    header
}

fn header_checksum(header: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..LOG_CRC_OFFSET]);
    hasher.update(&header[LOG_CRC_OFFSET + 4..]);
    hasher.finalize()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
