//! Reads a log record by record, checks each, and stops at the first that fails verification.

use std::ops::Range;

use super::file::RECORDS_OFFSET;
use super::note::Note;
use super::record::{self, MAX_MARK, MAX_PAYLOAD, RECORD_HEADER_BYTES, RecordHeader};
use super::{LogEnd, LogError, LogFile, Mark, Record, RecordKind};
use crate::error::{Error, Result};
use crate::sys::storage::read_exact_at;

const WINDOW: usize = 4 * (MAX_PAYLOAD + RECORD_HEADER_BYTES);
/// A record is verified as a whole.
const _: () = assert!(WINDOW >= MAX_PAYLOAD + RECORD_HEADER_BYTES);

/// Reads a log from its beginning. The window bounds memory use, whatever the log's length.
#[derive(Debug)]
pub(crate) struct LogReader<'a> {
    log: &'a LogFile,
    length: u64,
    /// Offset of the next record.
    end: u64,
    /// CRC of the last record.
    previous: u32,
    /// Read before the records: what is appended meanwhile must not count.
    note: Note,
    /// Offset up to which the records are known to form a chain.
    trusted: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl<'a> LogReader<'a> {
    pub(crate) fn new(log: &'a LogFile) -> Result<Self> {
        let note = Note::read(log)?;
        let length = log
            .file
            .length()
            .map_err(|error| Error::io("measure the log", &log.path, error))?;
        Ok(Self {
            log,
            length,
            end: RECORDS_OFFSET,
            previous: log.header_crc,
            note,
            trusted: 0,
            window: Vec::new(),
            window_start: 0,
        })
    }

    /// Resumes behind the known part of the log: reads from `offset`, trusts everything up to `tail`, and continues the
    /// chain there.
    pub(crate) fn resume(log: &'a LogFile, offset: u64, tail: LogEnd) -> Result<Self> {
        // Before the first record lie bytes that no record checks.
        assert!(offset >= RECORDS_OFFSET, "{offset}");
        Ok(Self {
            end: offset,
            previous: tail.previous,
            trusted: tail.end,
            ..Self::new(log)?
        })
    }

    /// Refuses a file that is shorter than it was made. A log that was made no more than in part may be.
    pub(crate) fn check_length(&self) -> Result<()> {
        match self.note.length > self.length {
            true => Err(self.wrong(LogError::Truncated {
                expected: self.note.length,
                got: self.length,
            })),
            false => Ok(()),
        }
    }

    /// Returns the end of the valid records read so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the CRC of the last valid record.
    pub(crate) fn previous(&self) -> u32 {
        self.previous
    }

    /// Returns the next record, or `None` where the chain of valid records ends.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>> {
        let offset = self.end;
        let Some(header) = self.verify(offset)? else {
            return Ok(None);
        };
        let known = offset < self.trusted;
        if !known && header.previous != self.previous {
            return Ok(None);
        }
        self.end = offset + (RECORD_HEADER_BYTES + header.length) as u64;
        debug_assert!(offset < self.end && self.end <= self.length);
        if !known {
            self.previous = header.crc;
        }
        let start = (offset - self.window_start) as usize + RECORD_HEADER_BYTES;
        Ok(Some(Record {
            offset,
            kind: header.kind,
            handle: header.handle,
            payload: &self.window[start..start + header.length],
        }))
    }

    /// Looks for proof that more of the log had been durable than the chain: the log's note, or a commit mark behind the
    /// end of the chain.
    ///
    /// If there is any, a record before it is damaged or cut off: this is not the torn tail of a crash.
    pub(crate) fn check_tail(&mut self) -> Result<()> {
        let end = self.end;
        let durable = self.note.durable;
        if durable > end {
            return Err(self.wrong(LogError::Damaged {
                offset: end,
                durable,
            }));
        }
        let mut offset = end + 8;
        let mut data = 0..0;
        while offset + (RECORD_HEADER_BYTES as u64) < self.length {
            // A record begins with bytes that are not all zero, and holes may have any length.
            if offset + RECORD_HEADER_BYTES as u64 > data.end {
                data = self.next_data(offset)?;
                if data.is_empty() {
                    break;
                }
                let least = data.start.saturating_sub(RECORD_HEADER_BYTES as u64);
                offset = offset.max(least / 8 * 8);
            }
            if let Some(mark) = self.mark_at(offset)?
                && mark.durable > end
            {
                return Err(self.wrong(LogError::Damaged {
                    offset: end,
                    durable: mark.durable,
                }));
            }
            offset += 8;
        }
        Ok(())
    }

    fn next_data(&self, offset: u64) -> Result<Range<u64>> {
        let data = self.log.file.next_data(offset);
        data.map_err(|error| Error::io("look for data of the log", &self.log.path, error))
    }

    fn mark_at(&mut self, offset: u64) -> Result<Option<Mark>> {
        let bytes = self.bytes(offset, RECORD_HEADER_BYTES)?;
        match bytes.and_then(RecordHeader::decode) {
            Some(header) if header.kind == RecordKind::Commit && header.length <= MAX_MARK => {}
            _ => return Ok(None),
        }
        let Some(header) = self.verify(offset)? else {
            return Ok(None);
        };
        let start = (offset - self.window_start) as usize + RECORD_HEADER_BYTES;
        Ok(Mark::decode(&self.window[start..start + header.length]))
    }

    /// Verifies the record at `offset`, if there is one, and leaves it in the window.
    fn verify(&mut self, offset: u64) -> Result<Option<RecordHeader>> {
        let bytes = self.bytes(offset, RECORD_HEADER_BYTES)?;
        let Some(header) = bytes.and_then(RecordHeader::decode) else {
            return Ok(None);
        };
        let salt = &self.log.salt;
        let Some(bytes) = self.bytes(offset, RECORD_HEADER_BYTES + header.length)? else {
            return Ok(None);
        };
        if record::checksum(salt, offset, bytes) != header.crc {
            return Ok(None);
        }
        Ok(Some(header))
    }

    /// Returns `count` bytes from `offset`, at most one window; `None` if the file ends before that.
    fn bytes(&mut self, offset: u64, count: usize) -> Result<Option<&[u8]>> {
        debug_assert!(count <= WINDOW, "{count} bytes at once");
        if offset + count as u64 > self.length {
            return Ok(None);
        }
        let held = self.window_start..self.window_start + self.window.len() as u64;
        if offset < held.start || offset + count as u64 > held.end {
            let size = (self.length - offset).min(WINDOW as u64) as usize;
            self.window.resize(size, 0);
            self.window_start = offset;
            let read = read_exact_at(&*self.log.file, &mut self.window, offset);
            if let Err(error) = read {
                self.window.clear();
                return Err(Error::io("read the log", &self.log.path, error));
            }
        }
        let start = (offset - self.window_start) as usize;
        Ok(Some(&self.window[start..start + count]))
    }

    /// Returns an error that names this log.
    pub(crate) fn wrong(&self, source: LogError) -> Error {
        Error::Log {
            path: self.log.path.clone(),
            source,
        }
    }
}
