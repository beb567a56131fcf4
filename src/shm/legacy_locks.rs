//! Takes a store over from builds that locked files beside it (FORMAT.md, "Locks and concurrent readers").

use crate::error::{Error, Result};
use crate::file::Header;
use crate::file::layout::HEADER_OFFSET;
use crate::file::side_file::LEGACY_LOCKS;
use crate::shm::locks::{lock_error, locked};
use crate::shm::place::Place;
use crate::sys::LockFile;
use crate::sys::storage::{StorageFile, write_all_at};

/// Marks a store as one whose locks are on its own file, and removes the old lock files. From then on those builds
/// refuse the store. Only the first handle to open calls this, while it holds the open-close lock.
///
/// # Errors
/// [`Error::Locked`] if such a build has the store open.
pub(crate) fn take_over(place: &Place, file: &dyn StorageFile, header: &mut Header) -> Result<()> {
    let mut held = Vec::new();
    for suffix in LEGACY_LOCKS {
        let path = place.beside(suffix);
        let lock = match LockFile::open(|| place.folder().open_file(&path, false)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            opened => opened.map_err(|error| Error::io("open", &path, error))?,
        };
        if !lock.try_exclusive().map_err(lock_error(&path))? {
            return Err(locked(&path));
        }
        held.push((path, lock));
    }
    header.locks_itself = true;
    // The header's 256 bytes lie in one sector, which is written whole or not at all. The copies in the superblocks
    // follow when those are next written.
    write_all_at(file, &header.encode(), HEADER_OFFSET)
        .map_err(|error| Error::io("mark the locks of", place, error))?;
    let synced = file.sync();
    synced.map_err(|error| Error::sync("mark the locks of", place, error))?;
    for (path, _lock) in &held {
        // An unrelated file of that name stays, and does no harm.
        let _ = place.folder().remove(path);
    }
    Ok(())
}
