//! Creating a store: under a temporary name, then published in one step.

use std::path::Path;

use crate::config::create_options::CreateOptions;
use crate::config::open_options::OpenOptions;
use crate::config::template::Template;
use crate::engine::open::close::Session;
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
use crate::wal::file::RECORDS_OFFSET;
use crate::wal::log_path;

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
    let mut blank = Vec::new();
    for number in place.numbers("-log.")? {
        let path = log_path(place, number);
        let failed = |error| Error::io("look at", &path, error);
        if !place.is_ours(&path, number)? {
            continue;
        }
        if has_records(place, &path).map_err(failed)? {
            return Err(Error::LeftoverLog { path });
        }
        blank.push(path);
    }
    for path in blank {
        let removed = place.folder().remove(&path);
        removed.map_err(|error| Error::io("remove a log without a record", &path, error))?;
    }
    clear_shared_memory(place, None)
}

/// Returns whether anything was ever appended to a log, whatever store it belongs to.
fn has_records(place: &Place, path: &Path) -> std::io::Result<bool> {
    let file = place.folder().open_file(path, false)?;
    let mut first = Vec::new();
    let mut rest = &file;
    std::io::Seek::seek(&mut rest, std::io::SeekFrom::Start(RECORDS_OFFSET))?;
    std::io::Read::read_to_end(&mut std::io::Read::take(rest, 64), &mut first)?;
    Ok(first.iter().any(|byte| *byte != 0))
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
