//! The note in a log's first page: up to where the log was durable, and how long its file is at least
//! (FORMAT.md, "The note").
//!
//! It is written after a sync has returned and is not synced itself, so it never says more than what is durable. It
//! survives a kill; a power cut may leave an older one.

use super::LogFile;
use super::file::RECORDS_OFFSET;
use crate::codec::{Encoder, put_u32, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::file::layout::SECTOR_BYTES;
use crate::sys::storage::{read_exact_at, write_all_at};

/// In a sector of its own: whatever becomes of it, the header stays as it is.
pub(super) const NOTE_OFFSET: u64 = SECTOR_BYTES as u64;
pub(super) const NOTE_BYTES: usize = 24;
const _: () = assert!(NOTE_BYTES <= SECTOR_BYTES, "whole or not there");

/// What a log's note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Note {
    /// Offset up to which the log was durable when the note was written.
    pub(crate) durable: u64,
    /// The length of the file when its header was made durable; 0: unknown. The file never shrinks.
    pub(crate) length: u64,
}

impl Note {
    pub(crate) fn write(self, log: &LogFile) -> std::io::Result<()> {
        // A reader takes a lower one for no note.
        assert!(self.durable >= RECORDS_OFFSET, "{self:?}");
        let mut bytes = Vec::with_capacity(NOTE_BYTES);
        Encoder::new(&mut bytes)
            .u32(0)
            .u32(0)
            .u64(self.durable)
            .u64(self.length);
        let crc = checksum(log, &bytes);
        put_u32(&mut bytes, 0, crc);
        write_all_at(&*log.file, &bytes, NOTE_OFFSET)
    }

    /// Returns the note of a log; one that says nothing if there is none, or one that can't be read.
    pub(crate) fn read(log: &LogFile) -> Result<Self> {
        let mut bytes = [0; NOTE_BYTES];
        read_exact_at(&*log.file, &mut bytes, NOTE_OFFSET)
            .map_err(|error| Error::io("read the log", &log.path, error))?;
        let note = Self {
            durable: u64_at(&bytes, 8),
            length: u64_at(&bytes, 16),
        };
        let is_whole = u32_at(&bytes, 0) == checksum(log, &bytes) && note.durable >= RECORDS_OFFSET;
        Ok(if is_whole { note } else { Self::default() })
    }
}

fn checksum(log: &LogFile, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&log.salt);
    hasher.update(&bytes[4..]);
    hasher.finalize()
}
