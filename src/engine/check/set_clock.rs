//! Setting the time of a store that a wrong clock has put forward.

use std::path::Path;
use std::time::SystemTime;

use crate::config::open_options::OpenOptions;
use crate::engine::open::handle::open_inside;
use crate::engine::write::Writer;
use crate::error::{Error, Result};
use crate::file::Superblock;
use crate::shm::locks::{Intention, OpenCloseLock, PresenceLock, locked};
use crate::shm::place::Place;
use crate::shm::store_clock::milliseconds;
use crate::storefile::meta::identify;
use crate::storefile::store_file::write_superblock;

/// What stands for the earliest step until all pages are read: one that is forgotten unless the time lies in the first window.
const UNREAD: u64 = 1;

/// Makes a time that of a store that forgets and that no handle has open, though it may have recorded a later one. No log is
/// left. What came later than this time has come at it from here on.
///
/// If this is interrupted, it can be repeated.
pub(super) fn set_clock(options: &OpenOptions, path: &Path, time: SystemTime) -> Result<()> {
    let place = &Place::of_existing(path)?;
    let gate = OpenCloseLock::enter(place, Intention::Write, options.timeout)?;
    let place = &place.with_owner(Some(gate.state.owner))?;
    let locks = gate.locks(place, Intention::Write)?;
    drop(PresenceLock::alone(&locks)?.ok_or_else(|| locked(place))?);
    let (file, meta) = identify(options, place, true)?;
    let window = meta.header.window.ok_or_else(|| Error::NeverForgets {
        path: place.to_path_buf(),
        action: "set their time",
    })?;
    // A step before, so that the checkpoint that follows gives all pages a new base.
    let step = window.milliseconds().div_ceil(window.steps().into());
    let clock = milliseconds(time).saturating_sub(step);
    let mut runs = meta.superblock.runs.clone();
    // What came in a later step has come in this one.
    for run in runs.iter_mut().flat_map(|table| &mut table.runs) {
        run.below_until = run.below_until.min(window.step_of(clock));
    }
    let superblock = Superblock {
        runs,
        sequence: meta.superblock.sequence + 1,
        clock,
        // Until all pages are read.
        earliest: UNREAD,
        ..meta.superblock
    };
    write_superblock(&*file, place, &meta.header, &superblock)?;
    let options = options.clone().clock(time).background(false);
    let store = open_inside(&options, place, &gate)?;
    // Closing needs the open/close lock.
    drop(gate);
    Writer::of(&store).checkpoint_forgetting()?;
    let superblock = store.file.read_meta()?.superblock;
    let is_late = window.step_of(clock) > u64::from(window.steps()) + UNREAD;
    if is_late && superblock.earliest == UNREAD && superblock.segment_pages() > 0 {
        // Pages with ages of the wrong time were left. What hinders shows when they are merged or verified.
        return Err(Error::NoSpace {
            action: "write all pages again in",
            path: place.to_path_buf(),
        });
    }
    store.close()?;
    Ok(())
}
