//! The shared-memory files. They hold nothing durable; this module removes what a session left behind.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file::side_file::{BUFFER, SPARE_BUFFER, UNFINISHED_BUFFER};
use crate::shm::coordination::{Coordination, shared_path};
use crate::shm::locks::{DYING, lock_error, locked};
use crate::shm::place::Place;
use crate::sys::wait_until;

/// Returns the path of a generation's buffer file.
pub(crate) fn buffer_path(store: &Place, generation: u64) -> PathBuf {
    store.beside(&format!("{BUFFER}{generation}"))
}

/// Returns the paths of the write buffer that is prepared ahead: its path during preparation, then its final path.
pub(crate) fn spare_paths(store: &Place) -> [PathBuf; 2] {
    [UNFINISHED_BUFFER, SPARE_BUFFER].map(|suffix| store.beside(suffix))
}

/// Removes a shared-memory file. Such files hold nothing that must be durable.
pub(crate) fn remove_if_there(store: &Place, path: &Path) -> Result<()> {
    match store.folder().remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove old shared memory", path, error))
        }
        _ => Ok(()),
    }
}

/// Removes what an earlier session's processes left behind; that content is never trusted. Only the first handle calls
/// this, before any other can have joined it.
///
/// # Errors
/// [`Error::Locked`] if handles still use it that have another file open, one that had this name before.
pub(crate) fn clear_shared_memory(place: &Place, store_id: Option<&[u8; 16]>) -> Result<()> {
    refuse_used(place)?;
    let words = shared_path(place);
    if let Some(id) = store_id
        && let Ok(left) = Coordination::look(place, id, true)
    {
        // Readers may still be watching a session that died without notice.
        left.set_ended();
    }
    remove_if_there(place, &words)?;
    for number in place.numbers(BUFFER)? {
        let path = buffer_path(place, number);
        if place.is_ours(&path, number)? {
            remove_if_there(place, &path)?;
        }
    }
    remove_spare(place)
}

/// Refuses a name whose shared memory is in use by handles of a file that had this name before. Those handles may use
/// its logs, too.
///
/// # Errors
/// [`Error::Locked`].
pub(crate) fn refuse_used(place: &Place) -> Result<()> {
    let words = shared_path(place);
    let mut in_use = false;
    // A killed process releases its files one after the other.
    wait_until(DYING, || {
        in_use = Coordination::is_used_by_anybody(place)?;
        Ok(!in_use)
    })
    .map_err(lock_error(&words))?;
    match in_use {
        true => Err(locked(place)),
        false => Ok(()),
    }
}

/// Removes the write buffer that was prepared ahead, if there is one. The first handle to open and the last to close
/// call this.
pub(crate) fn remove_spare(store: &Place) -> Result<()> {
    spare_paths(store)
        .iter()
        .try_for_each(|path| remove_if_there(store, path))
}
