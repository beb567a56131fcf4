//! Creating a store: under a temporary name, then published in one step.

use std::path::Path;

use crate::config::create_options::CreateOptions;
use crate::config::open_options::OpenOptions;
use crate::config::template::Template;
use crate::engine::open::close::Session;
use crate::engine::open::leftover_logs::LeftoverLogs;
use crate::error::{Error, Result};
use crate::file::draft_mark;
use crate::file::label::set_label;
use crate::file::layout::{HEADER_OFFSET, PAGES_OFFSET};
use crate::file::{Header, Superblock};
use crate::filter::design::{design, first_sample};
use crate::shm::place::Place;
use crate::shm::shm_files::clear_shared_memory;
use crate::shm::shm_files::refuse_used;
use crate::storefile::atomic_file::{AtomicFile, STORE};
use crate::sys::storage::{Owner, StorageFile, write_all_at};

/// Creates a store; `like` is the store that the options name as its template.
pub(crate) fn create(
    options: &CreateOptions,
    like: Option<&Template>,
    path: &Path,
) -> Result<Session> {
    let (mut header, mut superblock) = design(options, like)?;
    set_label(&mut header, &mut superblock, options.new_label(like));
    // A sample of all keys that ever came would grow for ever.
    if options.is_measured(like) && header.window.is_none() {
        let sample = first_sample(&header, &superblock)?;
        superblock.sections.extend(sample);
    }
    make(&options.open, path, None, |draft| {
        begin(draft, &superblock)?;
        finish(&*draft.file, &draft.temporary, &header, &superblock)
    })
}

/// Creates a store with `write`, which writes and syncs all of it, and opens it. `owner` is the owner of the stores it
/// is built from.
pub(crate) fn make(
    options: &OpenOptions,
    path: &Path,
    owner: Option<Owner>,
    write: impl FnOnce(&AtomicFile) -> Result<()>,
) -> Result<Session> {
    let draft = AtomicFile::begin(options, path, STORE, owner)?;
    clear_leftovers(&draft.place)?;
    write(&draft)?;
    let (undo, place) = (draft.undoing(), draft.place.clone());
    let gate = draft.name()?;
    // Opening makes the name durable, as it does with a name that a killed creator left.
    let opened = crate::engine::open::handle::open_inside(options, &place, &gate);
    if opened.is_err() {
        // After an error there is no store. The open/close lock is still held, so no other handle has seen it.
        undo();
    }
    Ok(opened?)
}

/// Makes sure that nothing beside a new store can be taken for its own. Removes leftovers of an earlier store of that
/// name that no longer matter, and refuses those that may matter.
fn clear_leftovers(place: &Place) -> Result<()> {
    // Check this first: handles of a store that was moved away may still use all of it.
    refuse_used(place)?;
    LeftoverLogs::of(place)?
        .expect_blank()?
        .remove_blank(place)?;
    clear_shared_memory(place, None)
}

/// Extends a store's file to the length that its layers need.
pub(crate) fn begin(draft: &AtomicFile, superblock: &Superblock) -> Result<()> {
    // Pages take space only when first written, so a store sized for years to come is small at first.
    let length = superblock.end_offset().max(PAGES_OFFSET);
    let set = draft.file.set_length(length);
    set.map_err(|error| Error::io(STORE.action, &draft.temporary, error))
}

/// Writes the mark of a draft, superblock and header. All else is durable before the header is written, which makes the file a store; the header
/// itself is durable once the draft has its name.
pub(crate) fn finish(
    file: &dyn StorageFile,
    path: &Path,
    header: &Header,
    superblock: &Superblock,
) -> Result<()> {
    // A new store is all in its file.
    assert!(!superblock.log_expected, "a log that nothing has made");
    draft_mark::set(file, &header.store_id)
        .map_err(|error| Error::io(STORE.action, path, error))?;
    crate::storefile::store_file::write_superblock(file, path, header, superblock)?;
    write_all_at(file, &header.encode(), HEADER_OFFSET)
        .map_err(|error| Error::io("create the store", path, error))
}
