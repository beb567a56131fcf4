//! Doors for the fuzz targets in `fuzz/`, to what is not public. Compiled for them alone.

use std::path::Path;

use crate::error::{Error, Result};
use crate::file::{FormatError, Header, Superblock, SuperblockFault};
use crate::log::LogFile;
use crate::storage::Storage;
use crate::store::{LogSummary, scan};

/// What a log holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogContents {
    /// Where valid records end.
    pub end: u64,
    /// Keys in it, committed or not.
    pub keys: u64,
    /// Those that count.
    pub committed_keys: u64,
    /// The highest commit sequence.
    pub commit_sequence: u64,
    /// Where the record that closes it begins, if there is one.
    pub cut: Option<u64>,
}

/// Checks a header, the first page of a file, and writes it again.
pub fn header(page: &[u8], file_length: u64) -> Result<[u8; 256], FormatError> {
    Header::decode(page, file_length).map(|header| header.encode())
}

/// Checks a superblock of a store with this header, and writes it again.
///
/// # Panics
/// If it is another one when it is read again.
pub fn superblock(page: &[u8], place: &[u8]) -> Option<Result<Vec<u8>, SuperblockFault>> {
    let header = Header::decode(page, u64::MAX).ok()?;
    Some(Superblock::decode(place, &header).map(|superblock| {
        let mut written = superblock.encode(&header);
        let again = Superblock::decode(&written, &header);
        assert_eq!(again.as_ref(), Ok(&superblock));
        written.truncate(place.len());
        written
    }))
}

/// Reads the log of a generation of the store at `path` with this header; `None` if there is none.
pub fn log(
    storage: &dyn Storage,
    path: &Path,
    page: &[u8],
    generation: u64,
) -> Result<Option<LogContents>> {
    let wrong = |source| Error::Format {
        path: path.to_owned(),
        source,
    };
    let header = Header::decode(page, u64::MAX).map_err(wrong)?;
    let Some(log) = LogFile::open(storage, path, &header.store_id, generation, false)? else {
        return Ok(None);
    };
    let LogSummary {
        end,
        keys,
        committed_keys,
        commit_sequence,
        cut,
        cut_offset,
        ..
    } = scan(&log, &header)?;
    Ok(Some(LogContents {
        end: end.end,
        keys,
        committed_keys,
        commit_sequence,
        cut: cut.map(|_| cut_offset),
    }))
}
