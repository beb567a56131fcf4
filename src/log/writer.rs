//! Appending to a log. Whoever has the writer has the writer lock.

use std::sync::Arc;

use super::record::{self, RecordKind};
use super::{Cut, LogFile, Mark};
use crate::error::{Error, Result};
use crate::sys::storage::write_all_at;

/// A log grows by at most this much at a time, in bytes.
const LARGEST_STEP: u64 = 64 << 20;
/// And by at least this much.
const SMALLEST_STEP: u64 = 64 << 10;

/// Appends records to a log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    log: Arc<LogFile>,
    end: u64,
    /// CRC of the last record, which the next one names.
    previous: u32,
    allocated: u64,
    scratch: Vec<u8>,
}

impl LogWriter {
    /// Goes on at `end`, behind a record with the CRC `previous`.
    pub(crate) fn resume(log: Arc<LogFile>, end: u64, previous: u32) -> Result<Self> {
        let allocated = log
            .file
            .length()
            .map_err(|error| Error::io("measure the log", &log.path, error))?;
        log.set_written(end);
        Ok(Self {
            log,
            end,
            previous,
            allocated,
            scratch: Vec::new(),
        })
    }

    /// Begins a log that was just made.
    pub(crate) fn begin(log: Arc<LogFile>) -> Result<Self> {
        let crc = log.header_crc;
        Self::resume(log, super::file::RECORDS_OFFSET, crc)
    }

    pub(crate) fn log(&self) -> &Arc<LogFile> {
        &self.log
    }

    /// Where the next record goes.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// A handle begins to write here.
    pub(crate) fn open(&mut self, handle: u64) -> Result<()> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce)
            .map_err(|error| Error::io("draw a nonce", &self.log.path, error.into()))?;
        self.append(RecordKind::Open, handle, |out| {
            out.extend_from_slice(&nonce);
        })
    }

    /// Keys inserted by a handle, in as many records as it takes.
    pub(crate) fn insert(&mut self, handle: u64, hashes: &[u64]) -> Result<()> {
        for part in hashes.chunks(record::MAX_HASHES) {
            self.append(RecordKind::Insert, handle, |out| {
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

    /// Writes one record and publishes the new end. On an error the end stays where it was: what
    /// was written of the record is a torn tail, and the next record overwrites it.
    fn append(
        &mut self,
        kind: RecordKind,
        handle: u64,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        record::begin(&mut self.scratch, self.previous, kind, handle);
        payload(&mut self.scratch);
        let crc = record::seal(&mut self.scratch, &self.log.salt, self.end);
        let end = self.end + self.scratch.len() as u64;
        self.reserve(end)?;
        write_all_at(&*self.log.file, &self.scratch, self.end)
            .map_err(|error| Error::io("append to the log", &self.log.path, error))?;
        self.end = end;
        self.previous = crc;
        self.log.set_written(end);
        Ok(())
    }

    /// Sees that the file is long enough, in steps that double.
    fn reserve(&mut self, end: u64) -> Result<()> {
        if end <= self.allocated {
            return Ok(());
        }
        let step = self.allocated.clamp(SMALLEST_STEP, LARGEST_STEP);
        let generous = end.next_multiple_of(SMALLEST_STEP) + step;
        let length = match self.log.file.allocate(generous) {
            Ok(()) => generous,
            // On a nearly full disk the bare need may still fit.
            Err(_) => {
                self.log.file.allocate(end).map_err(|error| {
                    Error::io("reserve room for the log", &self.log.path, error)
                })?;
                end
            }
        };
        self.allocated = length;
        Ok(())
    }
}
