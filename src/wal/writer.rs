//! Appends to a log. The caller holds the writer lock.

use super::file::RECORDS_OFFSET;
use super::record::{self, RecordKind};
use super::{Cut, LogFile, Mark};
use crate::error::{Error, Result};
use crate::sys::storage::append_all_at;

/// Maximum growth of a log at a time, in bytes.
const LARGEST_STEP: u64 = 64 << 20;
/// Minimum growth of a log at a time, in bytes.
const SMALLEST_STEP: u64 = 64 << 10;

/// The position of the next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogEnd {
    pub(crate) end: u64,
    /// CRC of the last record, which the next record names.
    pub(crate) previous: u32,
    /// Bytes allocated to the file.
    pub(crate) allocated: u64,
}

impl LogEnd {
    /// Returns the end of a newly created log.
    pub(crate) fn begin(log: &LogFile) -> Result<Self> {
        let length = log.file.length();
        Ok(Self {
            end: RECORDS_OFFSET,
            previous: log.header_crc,
            allocated: length.map_err(|error| Error::io("measure the log", &log.path, error))?,
        })
    }
}

/// Appends records to a log.
#[derive(Debug)]
pub(crate) struct LogWriter<'a> {
    pub(crate) log: &'a LogFile,
    pub(crate) at: &'a mut LogEnd,
    pub(crate) scratch: &'a mut Vec<u8>,
}

impl LogWriter<'_> {
    /// Appends a record that announces a handle as a writer.
    pub(crate) fn open(&mut self, handle: u64) -> Result<()> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce)
            .map_err(|error| Error::io("draw a nonce for", &self.log.path, error.into()))?;
        self.append(RecordKind::Open, handle, |out| {
            out.extend_from_slice(&nonce);
        })
    }

    /// Appends keys that a handle inserted, in as many records as needed.
    pub(crate) fn insert(&mut self, handle: u64, hashes: &[u64]) -> Result<()> {
        self.hashes(RecordKind::Insert, handle, hashes)
    }

    /// Appends keys that a handle removed, in as many records as needed.
    pub(crate) fn remove(&mut self, handle: u64, hashes: &[u64]) -> Result<()> {
        self.hashes(RecordKind::Remove, handle, hashes)
    }

    /// Appends known false positives.
    pub(crate) fn exempt(&mut self, handle: u64, hashes: &[u64]) -> Result<()> {
        self.hashes(RecordKind::Exempt, handle, hashes)
    }

    /// Appends new keys that were mistaken for seen.
    pub(crate) fn lost(&mut self, handle: u64, hashes: &[u64]) -> Result<()> {
        self.hashes(RecordKind::Lost, handle, hashes)
    }

    fn hashes(&mut self, kind: RecordKind, handle: u64, hashes: &[u64]) -> Result<()> {
        for part in hashes.chunks(record::MAX_RECORD_HASHES) {
            self.append(kind, handle, |out| {
                out.reserve(part.len() * 8);
                for hash in part {
                    out.extend_from_slice(&hash.to_le_bytes());
                }
            })?;
        }
        Ok(())
    }

    pub(crate) fn commit(&mut self, handle: u64, mark: &Mark) -> Result<()> {
        self.append(RecordKind::Commit, handle, |out| mark.encode(out))
    }

    pub(crate) fn cut(&mut self, handle: u64, cut: &Cut) -> Result<()> {
        self.append(RecordKind::Cut, handle, |out| cut.encode(out))
    }

    /// Writes one record. On an error the end stays where it was: the partial record is a torn tail that the next
    /// record overwrites.
    fn append(
        &mut self,
        kind: RecordKind,
        handle: u64,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        record::begin(self.scratch, self.at.previous, kind, handle);
        payload(self.scratch);
        // One that says nothing would be read, counted and checked for nothing.
        assert!(self.scratch.len() > record::RECORD_HEADER_BYTES);
        let crc = record::seal(self.scratch, &self.log.salt, self.at.end);
        let end = self.at.end + self.scratch.len() as u64;
        // The reader looks for records at such places alone.
        debug_assert!(end.is_multiple_of(8), "{end}");
        self.reserve(end)?;
        // Beyond what is reserved, a full disk would tear a record that was promised room.
        assert!(end <= self.at.allocated, "{end} of {}", self.at.allocated);
        append_all_at(&*self.log.file, self.scratch, self.at.end)
            .map_err(|error| Error::io("append to the log", &self.log.path, error))?;
        self.at.end = end;
        self.at.previous = crc;
        Ok(())
    }

    /// Extends the file to the required length, in steps that double.
    fn reserve(&mut self, end: u64) -> Result<()> {
        let allocated = self.at.allocated;
        if end <= allocated {
            return Ok(());
        }
        let step = allocated.clamp(SMALLEST_STEP, LARGEST_STEP);
        let generous = end.next_multiple_of(SMALLEST_STEP) + step;
        let length = match self.log.file.allocate(generous) {
            Ok(()) => generous,
            // On a nearly full disk, exactly the required length may still fit.
            Err(_) => {
                self.log.file.allocate(end).map_err(|error| {
                    Error::io("reserve room for the log", &self.log.path, error)
                })?;
                end
            }
        };
        self.at.allocated = length;
        Ok(())
    }
}
