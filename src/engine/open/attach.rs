//! Joining: checks that this is the right file, and finds out which handles are there and what they share.

use std::time::Instant;

use crate::config::open_options::OpenOptions;
use crate::error::{Error, Result};
use crate::file::side_file::{NEW_STORE, UNFINISHED_COPY};
use crate::generation::Generation;
use crate::page::KeyModel;
use crate::shm::coordination::Coordination;
use crate::shm::locks::{OpenCloseLock, PresenceLock, StoreLocks, locked};
use crate::shm::place::Place;
use crate::storefile::meta::{Meta, read_meta_of};
use crate::sys::storage::StorageFile;
use crate::sys::{state_of, wait_until};

/// How a handle joins.
pub(crate) enum Part {
    /// No other handle is there.
    First(PresenceLock),
    /// Other handles are there, and this one uses their shared memory.
    Joining(PresenceLock, Coordination),
}

/// Refuses a file that has just replaced the one whose open/close lock is held.
pub(crate) fn expect_same(
    file: &dyn StorageFile,
    place: &Place,
    gate: &OpenCloseLock,
) -> Result<()> {
    let Some(file) = file.as_file() else {
        return Ok(());
    };
    let found = state_of(file).map_err(|error| Error::io("look at", place, error))?;
    match found.id == gate.state.id {
        true => Ok(()),
        false => Err(Error::Moved {
            path: place.to_path_buf(),
        }),
    }
}

/// Refuses a file that has a second name: logs lie beside one name, and a handle that uses the other can't find them.
/// Removes second names that a killed publication of Everseen's left.
pub(crate) fn refuse_other_names(place: &Place, gate: &OpenCloseLock) -> Result<()> {
    if gate.state.links <= 1 {
        return Ok(());
    }
    for left in [NEW_STORE, UNFINISHED_COPY].map(|suffix| place.beside(suffix)) {
        let found = place.state_of(&left)?;
        if found.is_some_and(|found| found.id == gate.state.id) {
            let removed = place.folder().remove(&left);
            removed.map_err(|error| Error::io("remove a second name", &left, error))?;
        }
    }
    match place.state()? {
        Some(found) if found.links > 1 => Err(Error::ManyNames {
            path: place.to_path_buf(),
            names: found.links,
        }),
        _ => Ok(()),
    }
}

/// Finds out whether this handle is the first. Waits for handles that are about to go: those that can't go on after a
/// failed write, and those of a dying process.
pub(crate) fn find_part(
    options: &OpenOptions,
    place: &Place,
    locks: &StoreLocks,
    store_id: &[u8; 16],
) -> Result<Part> {
    let mut found = None;
    // The reason this handle is kept out, if that lasts longer than a death takes.
    let mut refused = None;
    let begun = Instant::now();
    wait_until(options.timeout, || {
        if let Some(alone) = PresenceLock::alone(locks)? {
            found = Some(Part::First(alone));
            return Ok(true);
        }
        let presence = PresenceLock::join(locks)?;
        let shared = Coordination::open(place, store_id, locks.id(), true);
        refused = match (presence, shared) {
            (Some(presence), Ok(shared)) if !options.exclusive => {
                if shared.is_joinable() {
                    found = Some(Part::Joining(presence, shared));
                    return Ok(true);
                }
                None
            }
            (Some(_), Err(unfit)) if !options.exclusive => Some(unfit.error(place)),
            _ => Some(locked(place)),
        };
        match &refused {
            Some(_) if begun.elapsed() >= options.dying => {
                Err(refused.take().unwrap_or(Error::Closed))
            }
            _ => Ok(false),
        }
    })?;
    match (found, refused) {
        (Some(part), _) => Ok(part),
        (None, Some(refused)) => Err(refused),
        (None, None) => Err(Error::Busy {
            path: place.to_path_buf(),
            what: "handles that can't go on after a failed write to close",
            process: None,
        }),
    }
}

/// Opens the buffers that other handles have created.
pub(crate) fn attach_all(
    path: &Place,
    file: &dyn StorageFile,
    shared: &Coordination,
    model: KeyModel,
    write: bool,
) -> Result<(Generation, Option<Generation>, Meta)> {
    // A rotation or the end of a checkpoint may intervene: then look again.
    for _ in 0..1000 {
        let (active, checkpointed) = (shared.active(), shared.checkpointed());
        let open = |number| Generation::attach(path, number, shared.buffer_sizes(), model, write);
        let opened = open(active).and_then(|active_one| {
            let sealed = (checkpointed < active)
                .then(|| open(checkpointed))
                .transpose()?;
            // Read this last: its layers hold everything that is settled.
            Ok((active_one, sealed, read_meta_of(file, path)?))
        });
        match opened {
            Ok(opened) if opened.2.superblock.generation < checkpointed => std::thread::yield_now(),
            Ok(opened) => return Ok(opened),
            Err(error) if (active, checkpointed) == (shared.active(), shared.checkpointed()) => {
                return Err(error);
            }
            Err(_) => std::thread::yield_now(),
        }
    }
    Err(Error::Busy {
        path: path.to_path_buf(),
        what: "other handles to make progress",
        process: None,
    })
}
