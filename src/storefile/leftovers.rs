//! Drafts that a creator left when it died: which files under a temporary name are such, and may be removed.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::delta::{DELTA_HEADER_BYTES, DELTA_MAGIC};
use crate::file::draft_mark;
use crate::file::header::STORE_MAGIC;
use crate::page::PAGE_BYTES;
use crate::shm::locks::{Intention, StoreLocks};
use crate::shm::place::Place;
use crate::storefile::atomic_file::{COPY, Making, STORE};
use crate::storefile::unfinished::is_unfinished;
use crate::sys::storage::{Storage, disk, read_exact_at};

/// What became of a file that had a temporary name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leftover {
    Gone,
    /// Its creator lives.
    IsMade,
    /// Another file has the name by now.
    Other,
}

/// Removes what a dead creator left.
pub(super) fn remove_leftover(
    storage: &dyn Storage,
    place: &Place,
    temporary: &Path,
    making: Making,
) -> Result<Leftover> {
    let failed = |error| Error::io("remove the leftovers of", temporary, error);
    match place.folder().is_ours(temporary) {
        Ok(true) => {}
        Ok(false) => return Err(in_the_way(temporary)),
        // Its creator has just given it its final name.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Leftover::Gone),
        Err(error) => return Err(failed(error)),
    }
    let (left, state) = match StoreLocks::open_other(place, temporary, Intention::Write) {
        Err(Error::NotFound { .. }) => return Ok(Leftover::Gone),
        opened => opened?,
    };
    let Some(_gate) = left.gate_of_draft()? else {
        return Ok(Leftover::IsMade);
    };
    if place
        .state_of(temporary)?
        .is_none_or(|found| found.id != state.id)
    {
        return Ok(Leftover::Other);
    }
    if !is_left_over(storage, temporary, making).map_err(failed)? {
        return Err(in_the_way(temporary));
    }
    storage.remove(temporary).map_err(failed)?;
    Ok(Leftover::Gone)
}

fn in_the_way(path: &Path) -> Error {
    Error::InTheWay {
        path: path.to_owned(),
    }
}

/// Returns whether a file under a temporary name, which begins as files of Everseen's do, was left by a creator that died: it
/// has no header yet, or the mark of a draft. A store without one was named so by somebody.
fn is_left_over(storage: &dyn Storage, path: &Path, making: Making) -> io::Result<bool> {
    let file = storage.open(path, false)?;
    let mut page = vec![0; file.length()?.min(PAGE_BYTES as u64) as usize];
    read_exact_at(&*file, &mut page, 0)?;
    let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let (magic, rest) = page.split_at(page.len().min(STORE_MAGIC.len()));
    let written = magic.iter().take_while(|byte| **byte != 0).count();
    let has_magic = STORE_MAGIC.starts_with(&magic[..written]) && is_blank(&magic[written..]);
    // A delta's content follows its header at once. A store has its version there.
    let headless = &rest[..rest.len().min(DELTA_HEADER_BYTES - STORE_MAGIC.len())];
    let is_headless = match written {
        0 => is_blank(rest),
        _ => is_blank(headless),
    };
    Ok((has_magic && is_headless)
        || draft_mark::is_set(&*file)?
        || (making.leaves_deltas && magic == DELTA_MAGIC))
}

/// Removes drafts beside a store that a creator left which lost the race for its name and was killed at that moment. It has
/// not written anything to them: what is more than begun is left for the next creator to judge.
pub(crate) fn remove_abandoned_drafts(place: &Place) {
    for making in [STORE, COPY] {
        // Nothing depends on it.
        let _ = remove_abandoned(place, &place.beside(making.suffix));
    }
}

fn remove_abandoned(place: &Place, path: &Path) -> Result<()> {
    if place.state_of(path)?.is_none() {
        return Ok(());
    }
    let (left, state) = StoreLocks::open_other(place, path, Intention::Write)?;
    let Some(_gate) = left.gate_of_draft()? else {
        return Ok(());
    };
    let failed = |error| Error::io("remove the leftovers of", path, error);
    let Some(disk) = disk().within(place.folder()) else {
        return Ok(());
    };
    let is_begun = disk.open(path, false);
    let is_begun = is_begun
        .and_then(|file| is_unfinished(&*file))
        .map_err(failed)?;
    if is_begun
        && place
            .state_of(path)?
            .is_some_and(|found| found.id == state.id)
    {
        place.folder().remove(path).map_err(failed)?;
    }
    Ok(())
}
