//! Taking a store over from builds that locked files beside it (FORMAT.md, "Locks and concurrent readers").

use crate::error::{Error, Result};
use crate::file::Header;
use crate::file::layout::HEADER_OFFSET;
use crate::store::coordination::locks::{lock_error, locked};
use crate::store::coordination::place::Place;
use crate::sys::LockFile;
use crate::sys::storage::{StorageFile, write_all_at};

/// What those builds lock, in the order in which they do.
const LOCKED: [&str; 2] = ["-gate", "-lock"];

/// Marks a store as one whose locks are on its file, and removes the old lock files. From then on those builds refuse
/// it. For the first handle in, inside the gate.
///
/// # Errors
/// [`Error::Locked`] if such a build has it open.
pub(crate) fn take_over(place: &Place, file: &dyn StorageFile, header: &mut Header) -> Result<()> {
    let mut held = Vec::new();
    for suffix in LOCKED {
        let path = place.beside(suffix);
        let opened = match place.folder().open_file(&path, false) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            opened => opened.map_err(|error| Error::io("open", &path, error))?,
        };
        let lock = LockFile::of(opened);
        if !lock.try_exclusive().map_err(lock_error(&path))? {
            return Err(locked(&path));
        }
        held.push((path, lock));
    }
    header.locks_itself = true;
    // Its 256 bytes lie in one sector, which is written whole or not at all. Superblocks' copies follow with their
    // next writing.
    write_all_at(file, &header.encode(), HEADER_OFFSET)
        .map_err(|error| Error::io("mark the locks of", place, error))?;
    let synced = file.sync();
    synced.map_err(|error| Error::sync("mark the locks of", place, error))?;
    for (path, _lock) in &held {
        // A stranger's file of that name stays, and is in nobody's way.
        let _ = place.folder().remove(path);
    }
    Ok(())
}
