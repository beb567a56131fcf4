//! Files that are no store yet: empty ones, and those that a creator has begun.
//!
//! A creator writes the magic first and the rest of the header last. A file whose first page has nothing but the magic is
//! therefore no store, and none was ever there: a checkpoint never touches the header.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::open_options::OpenOptions;
use crate::error::{Error, Result};
use crate::file::header::STORE_MAGIC;
use crate::file::side_file::{BUFFER, LOG};
use crate::page::PAGE_BYTES;
use crate::shm::coordination::shared_path;
use crate::shm::place::Place;
use crate::shm::shm_files::buffer_path;
use crate::storefile::meta::{Meta, identify};
use crate::sys::storage::{StorageFile, read_exact_at};

/// Returns whether a file is empty, or was begun by a creator that did not finish it.
pub(crate) fn is_unfinished(file: &dyn StorageFile) -> io::Result<bool> {
    let length = file.length()?.min(PAGE_BYTES as u64) as usize;
    let mut page = vec![0; length];
    read_exact_at(file, &mut page, 0)?;
    let (magic, rest) = page.split_at(length.min(STORE_MAGIC.len()));
    Ok(match rest.is_empty() {
        // A power cut may keep the length and lose the bytes.
        true => magic.is_empty() || magic == STORE_MAGIC || magic == [0; STORE_MAGIC.len()],
        // Zeros alone may be anything, such as a store whose first page is lost.
        false => magic == STORE_MAGIC && rest.iter().all(|byte| *byte == 0),
    })
}

/// Does the same for whatever a path names. Opens regular files alone, and follows links.
pub(crate) fn is_unfinished_at(options: &OpenOptions, path: &Path) -> io::Result<bool> {
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return Ok(false);
    }
    // The storage may follow no link.
    is_unfinished(&*options.storage.open(&path.canonicalize()?, false)?)
}

/// Opens a file and checks header and superblocks. Says so if the file is no store yet.
pub(crate) fn identify_store(
    options: &OpenOptions,
    place: &Place,
    write: bool,
) -> Result<(std::sync::Arc<dyn StorageFile>, Meta)> {
    identify(options, place, write).map_err(|error| match error {
        Error::Format { .. } if is_unfinished_at(options, place).unwrap_or(false) => {
            empty(place, side_file(place).unwrap_or(None))
        }
        error => error,
    })
}

/// Refuses an empty file that was a store: files beside it show that.
pub(crate) fn refuse_emptied(place: &Place) -> Result<()> {
    match side_file(place)? {
        None => Ok(()),
        beside => Err(empty(place, beside)),
    }
}

fn empty(place: &Place, beside: Option<PathBuf>) -> Error {
    let path = place.to_path_buf();
    match beside {
        None => Error::EmptyFile { path },
        Some(beside) => Error::Emptied { path, beside },
    }
}

/// Returns a file that only an open store has beside it, or one that was not closed.
fn side_file(place: &Place) -> Result<Option<PathBuf>> {
    let words = shared_path(place);
    if place.state_of(&words)?.is_some() {
        return Ok(Some(words));
    }
    let log = |number| crate::wal::log_path(place, number);
    for number in place.numbers(LOG)? {
        if place.is_ours(&log(number), number)? {
            return Ok(Some(log(number)));
        }
    }
    for number in place.numbers(BUFFER)? {
        let path = buffer_path(place, number);
        if place.is_ours(&path, number)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::storage::disk;

    #[test]
    fn only_what_a_creator_begins_with_is_unfinished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let begun = |length: usize| {
            let mut bytes = vec![0; length];
            bytes[..STORE_MAGIC.len()].copy_from_slice(&STORE_MAGIC);
            bytes
        };
        let mut with_version = begun(131_072);
        with_version[8] = 1;
        for (bytes, expected) in [
            (vec![], true),
            (STORE_MAGIC[..3].to_vec(), false),
            (vec![0; 7], false),
            (vec![0; 8], true),
            (begun(8), true),
            (begun(131_072), true),
            (vec![0; 9], false),
            (vec![0; 131_072], false),
            (b"\n".to_vec(), false),
            (b"EVERSLOG".to_vec(), false),
            (with_version, false),
        ] {
            std::fs::write(&path, &bytes).unwrap();
            let file = disk().open(&path, false).unwrap();
            assert_eq!(is_unfinished(&*file).unwrap(), expected, "{}", bytes.len());
        }
    }
}
