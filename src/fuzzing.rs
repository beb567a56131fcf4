//! Doors for the fuzz targets in `fuzz/`, to what is not public. Compiled for them alone.

use std::path::Path;

use crate::codec::u64_at;
use crate::error::{Error, Result};
use crate::file::{FormatError, Header, Superblock, SuperblockFault};
use crate::log::LogFile;
use crate::page::{PAGE_BYTES, PAGE_WORDS, fingerprint};
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

/// Packs as much of the front of a sorted list as fits in a page that begins with `first`, and ends at `end` if all of it
/// does. Returns how many, and the page.
pub fn fingerprint_page(list: &[u64], first: u64, end: u64) -> (usize, Box<[u8; PAGE_BYTES]>) {
    let count = fingerprint::longest(list, first, end, list.len());
    let end = list.get(count).copied().unwrap_or(end);
    let mut page = Box::new([0; PAGE_BYTES]);
    fingerprint::encode(&list[..count], first..end, &mut page);
    (count, page)
}

/// Reads a page of fingerprints whose range ends at `end`, before it is checked and after; `None` if it is refused.
///
/// # Panics
/// If a look-up in a page that was not refused differs from its list.
pub fn fingerprints(page: &[u8; PAGE_BYTES], end: u64, asked: &[u64]) -> Option<Vec<u64>> {
    let first = fingerprint::first(page);
    let mut list = Vec::new();
    let whole = fingerprint::decode(page, first, &mut list);
    let has = |number: u64| {
        let word = |index: usize| u64_at(page, index % PAGE_WORDS * 8);
        fingerprint::contains(word, number.wrapping_sub(first))
    };
    let asked: Vec<(u64, bool)> = asked.iter().map(|one| (*one, has(*one))).collect();
    fingerprint::check(page, first..end).ok()?;
    whole.expect("it was checked");
    assert!(list.iter().all(|one| has(*one)));
    let in_range = asked.iter().filter(|(one, _)| (first..end).contains(one));
    for (one, answer) in in_range {
        assert_eq!(*answer, list.binary_search(one).is_ok(), "{one}");
    }
    Some(list)
}
