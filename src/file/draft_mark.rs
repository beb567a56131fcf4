//! The mark of a draft: a whole store that has not got its name yet. It alone tells what a killed creator left from a store
//! that somebody gave such a name.

use std::io;

use crate::file::layout::{COPY_MARK_OFFSET, SECTOR_BYTES};
use crate::page::PAGE_BYTES;
use crate::sys::storage::{StorageFile, read_exact_at, write_all_at};

/// In a sector of its own, in a page of which all others ignore this part.
pub(crate) const DRAFT_MARK_OFFSET: u64 = COPY_MARK_OFFSET + 512;
const MAGIC: [u8; 8] = *b"EVERDRFT";
const BYTES: usize = MAGIC.len() + 16;
pub(crate) const STORE_ID_OFFSET: usize = 112;

const _: () = assert!(512 + BYTES <= PAGE_BYTES);
/// A sector of its own: neither the mark of a copy nor a torn write changes it.
const _: () = assert!(DRAFT_MARK_OFFSET.is_multiple_of(SECTOR_BYTES as u64));
const _: () = assert!(BYTES <= SECTOR_BYTES);

/// Returns the mark of a store of this id.
pub(crate) fn mark_of(store_id: &[u8; 16]) -> [u8; BYTES] {
    let mut mark = [0; BYTES];
    mark[..MAGIC.len()].copy_from_slice(&MAGIC);
    mark[MAGIC.len()..].copy_from_slice(store_id);
    mark
}

pub(crate) fn set(file: &dyn StorageFile, store_id: &[u8; 16]) -> io::Result<()> {
    write_all_at(file, &mark_of(store_id), DRAFT_MARK_OFFSET)
}

/// Returns whether a file has the mark of its own store.
pub(crate) fn is_set(file: &dyn StorageFile) -> io::Result<bool> {
    if file.length()? < DRAFT_MARK_OFFSET + BYTES as u64 {
        return Ok(false);
    }
    let (mut store_id, mut mark) = ([0; 16], [0; BYTES]);
    read_exact_at(file, &mut store_id, STORE_ID_OFFSET as u64)?;
    read_exact_at(file, &mut mark, DRAFT_MARK_OFFSET)?;
    Ok(mark == mark_of(&store_id))
}

/// Takes the mark away, not durably. Returns whether there was one.
pub(crate) fn clear(file: &dyn StorageFile) -> io::Result<bool> {
    let was_set = is_set(file)?;
    if was_set {
        write_all_at(file, &[0; BYTES], DRAFT_MARK_OFFSET)?;
    }
    Ok(was_set)
}
