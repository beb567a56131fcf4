//! A file that gets its name once it is complete.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::file::header::STORE_MAGIC;
use crate::log::file::sync_parent;
use crate::store::config::options::Options;
use crate::store::coordination::locks::{Intention, OpenCloseLock, Others, StoreLocks, locked};
use crate::store::coordination::place::{Place, folder_of};
use crate::store::storefile::meta::read_meta_of;
use crate::store::storefile::unfinished::{is_unfinished, is_unfinished_at, refuse_emptied};
use crate::sys::storage::{Owner, Storage, StorageFile, disk, write_all_at};
use crate::sys::{state_of, wait_until};

/// What is created under a temporary name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making {
    suffix: &'static str,
    pub(crate) action: &'static str,
    naming: &'static str,
    /// Whether to wait for another process that creates the same file: a store is created quickly, a copy is not.
    waits: bool,
    /// Whether it may take the place of an empty file.
    takes_empty_files: bool,
}

/// A store, which is opened once it has its name.
pub(crate) const STORE: Making = Making {
    suffix: "-new",
    action: "create the store",
    naming: "give its name to the new store",
    waits: true,
    takes_empty_files: true,
};

/// A copy of a store, or a delta.
pub(crate) const COPY: Making = Making {
    suffix: "-part",
    action: "make",
    naming: "give its name to",
    waits: false,
    takes_empty_files: false,
};

/// How often a file may be taken for a leftover before it is locked, until the creator waits.
const MOST_REMOVALS: usize = 100;

/// The sequence of the superblock that a store begins with.
pub(crate) const FIRST_SEQUENCE: u64 = 1;

/// A file under a temporary name, removed unless it is published. Or an empty file that becomes a store in its place, with
/// its owner, its mode and whatever locks other programs have on it; then it is emptied again unless it is finished.
///
/// Its creator holds its open-close lock. A file with the temporary name whose lock is free was left by a creator that
/// died. The file begins with a magic from the first moment, so that the next creator may remove it.
///
/// Only a process that holds the open-close lock of such a file, and has seen afterwards that it still has its name, removes
/// or renames it. So creators need no lock on the directory, which may be locked by a program that runs them.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    pub(crate) place: Place,
    storage: Arc<dyn Storage>,
    /// The temporary name, or the final one if the file is made in its place.
    pub(crate) temporary: PathBuf,
    pub(crate) file: Arc<dyn StorageFile>,
    /// Held until the file is published, then handed on.
    gate: Option<OpenCloseLock>,
    making: Making,
    is_in_place: bool,
}

/// What came of an attempt to begin a file.
enum Attempt {
    Begun(Box<AtomicFile>),
    /// Another process is making the same file.
    IsMade,
    /// The name went to another file just now.
    Again,
}

impl AtomicFile {
    /// Begins a file to be named `path`, which must not exist, with the owner and the mode of the file it is derived
    /// from. A store may take the place of an empty file.
    pub(crate) fn begin(
        options: &Options,
        path: &Path,
        making: Making,
        owner: Option<Owner>,
    ) -> Result<Self> {
        if making.takes_empty_files && is_unfinished_file(options, path)? {
            return Self::begin_in_place(options, path, making);
        }
        let place = Place::of_new(path)?.with_owner(owner)?;
        let options = options.within(&place);
        let mut begun = None;
        let patience = match making.waits {
            true => options.timeout,
            false => Duration::ZERO,
        };
        wait_until(patience, || {
            begun = Self::begin_now(&options, &place, path, making)?;
            if begun.is_some() {
                // Another process may have given the name to its file just before. From here on, none can.
                refuse_existing(&options, path)?;
            }
            Ok::<_, Error>(begun.is_some())
        })?;
        begun.ok_or_else(|| Error::Busy {
            path: place.beside(making.suffix),
            what: "another process that creates the same file",
            process: None,
        })
    }

    /// Creates the temporary file; returns `None` if another process is creating the same file.
    fn begin_now(
        options: &Options,
        place: &Place,
        path: &Path,
        making: Making,
    ) -> Result<Option<Self>> {
        for _ in 0..MOST_REMOVALS {
            refuse_existing(options, path)?;
            refuse_closed_folder(path)?;
            match Self::try_begin(options, place, making)? {
                Attempt::Begun(file) => return Ok(Some(*file)),
                Attempt::IsMade => return Ok(None),
                Attempt::Again => {}
            }
        }
        Ok(None)
    }

    fn try_begin(options: &Options, place: &Place, making: Making) -> Result<Attempt> {
        let storage = &options.storage;
        let temporary = place.beside(making.suffix);
        let failed = |error| Error::io(making.action, &temporary, error);
        if storage.exists(&temporary).map_err(failed)? {
            match remove_leftover(&**storage, place, &temporary, making)? {
                Leftover::Gone => {}
                Leftover::IsMade => return Ok(Attempt::IsMade),
                Leftover::Other => return Ok(Attempt::Again),
            }
        }
        let file = match storage.create_new(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(Attempt::Again);
            }
            Err(error) => {
                // It may have been created all the same. The file of a living creator is locked, and stays.
                let _ = remove_leftover(&**storage, place, &temporary, making);
                return Err(failed(error));
            }
            Ok(file) => file,
        };
        // Until it is locked, another process may take it for a leftover.
        let Some(gate) = lock_draft(place, &temporary, &*file)? else {
            return Ok(Attempt::Again);
        };
        let draft = Self {
            place: place.clone(),
            storage: Arc::clone(storage),
            file,
            gate: Some(gate),
            temporary,
            making,
            is_in_place: false,
        };
        draft.mark_as_begun()?;
        Ok(Attempt::Begun(Box::new(draft)))
    }

    /// Begins a store in an empty file.
    fn begin_in_place(options: &Options, path: &Path, making: Making) -> Result<Self> {
        let place = Place::of_existing(path)?;
        refuse_closed_folder(&place)?;
        let options = options.within(&place);
        let gate = OpenCloseLock::enter(&place, Intention::Write, options.timeout)?;
        let locks = gate.locks(&place, Intention::Write)?;
        let failed = |error| Error::io(making.action, &place, error);
        let file = options.storage.open(&place, true).map_err(failed)?;
        // Another process may have made it a store just before.
        if !is_unfinished(&*file).map_err(failed)? {
            return Err(Error::AlreadyExists {
                path: path.to_owned(),
            });
        }
        if gate.state.links > 1 {
            return Err(Error::ManyNames {
                path: place.to_path_buf(),
                names: gate.state.links,
            });
        }
        if locks.others()? != Others::None {
            return Err(locked(&place));
        }
        refuse_emptied(&place)?;
        let length = file.length().map_err(failed)?;
        let draft = Self {
            temporary: place.to_path_buf(),
            storage: Arc::clone(&options.storage),
            place,
            file,
            gate: Some(gate),
            making,
            is_in_place: true,
        };
        if length > 0 {
            draft.undo();
        }
        draft.mark_as_begun()?;
        Ok(draft)
    }

    /// Writes the magic, durably: from then on, what a crash leaves is known for what it is.
    fn mark_as_begun(&self) -> Result<()> {
        let path = &self.temporary;
        write_all_at(&*self.file, &STORE_MAGIC, 0)
            .map_err(|error| Error::io(self.making.action, path, error))?;
        let synced = self.file.sync();
        synced.map_err(|error| Error::sync(self.making.action, path, error))
    }

    /// Removes the file, or makes it empty again. What can't be undone is known as unfinished later.
    fn undo(&self) {
        let _ = match self.is_in_place {
            true => self.file.set_length(0),
            false => self.storage.remove(&self.temporary),
        };
    }

    /// Returns what takes the file away again once it has its name: removes it, or makes it empty.
    pub(crate) fn undoing(&self) -> impl FnOnce() + use<> {
        let (storage, place) = (Arc::clone(&self.storage), self.place.clone());
        let file = self.is_in_place.then(|| Arc::clone(&self.file));
        move || {
            let _ = match file {
                Some(file) => file.set_length(0),
                None => storage.remove(&place),
            };
        }
    }

    /// Turns a system error from writing the file into one of this crate.
    pub(crate) fn failed(&self, error: io::Error) -> Error {
        Error::io("write", &self.temporary, error)
    }

    /// Makes the file durable and gives it its name, unless something has that name by now.
    pub(crate) fn publish(self) -> Result<()> {
        let (storage, place) = (Arc::clone(&self.storage), self.place.clone());
        let gate = self.name()?;
        let synced = sync_parent(&*storage, &place);
        drop(gate);
        synced.inspect_err(|_| {
            // After a reported failure, no file may remain.
            let _ = storage.remove(&place);
        })
    }

    /// Does the same for a file whose name becomes durable when it is first opened, and hands on the open-close lock.
    pub(crate) fn name(mut self) -> Result<OpenCloseLock> {
        let synced = self.file.sync();
        synced.map_err(|error| Error::sync("sync", &self.temporary, error))?;
        if self.is_in_place {
            return self.gate.take().ok_or(Error::Closed);
        }
        match self.storage.publish(&self.temporary, &self.place) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::AlreadyExists {
                    path: self.place.to_path_buf(),
                });
            }
            Err(error) => return Err(Error::io(self.making.naming, &self.place, error)),
        }
        self.gate.take().ok_or(Error::Closed)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.gate.is_some() {
            self.undo();
        }
    }
}

/// Takes the open-close lock of a file that was just created; returns `None` if it has lost its name meanwhile.
fn lock_draft(
    place: &Place,
    temporary: &Path,
    file: &dyn StorageFile,
) -> Result<Option<OpenCloseLock>> {
    let (locks, state) = match StoreLocks::open_other(place, temporary, Intention::Write) {
        Err(Error::NotFound { .. }) => return Ok(None),
        opened => opened?,
    };
    if let Some(file) = file.as_file() {
        let own = state_of(file).map_err(|error| Error::io("look at", temporary, error))?;
        if own.id != state.id {
            return Ok(None);
        }
    }
    let Some(gate) = OpenCloseLock::of_draft(&locks, state)? else {
        return Ok(None);
    };
    let named = place.state_of(temporary)?;
    Ok(Some(gate).filter(|_| named.is_some_and(|named| named.id == state.id)))
}

/// What became of a file that had a temporary name.
#[derive(Debug, PartialEq, Eq)]
enum Leftover {
    Gone,
    /// Its creator lives.
    IsMade,
    /// Another file has the name by now.
    Other,
}

/// Removes what a dead creator left.
fn remove_leftover(
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
    if making.takes_empty_files && has_history(storage, temporary) {
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

/// Returns whether a file is a store that was used: no draft, but one that somebody named so.
fn has_history(storage: &dyn Storage, path: &Path) -> bool {
    let meta = storage.open(path, false).map_err(|_| Error::Closed);
    let meta = meta.and_then(|file| read_meta_of(&*file, path));
    meta.is_ok_and(|meta| meta.superblock.sequence > FIRST_SEQUENCE)
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

/// Refuses a path in a directory in which this process may create nothing. The system's own error would name the file.
fn refuse_closed_folder(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    let expected = crate::sys::expect_to_make_in(folder);
    expected.map_err(|error| Error::io("create a file in", folder, error))
}

/// Returns whether a path names an empty file, or one that a creator has begun in its place.
pub(crate) fn is_unfinished_file(options: &Options, path: &Path) -> Result<bool> {
    let found = is_unfinished_at(options, path);
    found.map_err(|error| Error::io("look at", path, error))
}

/// Refuses a path that already exists.
pub(crate) fn refuse_existing(options: &Options, path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::IsFolder {
            path: path.to_owned(),
        });
    }
    let exists = options.storage.exists(path);
    if exists.map_err(|error| Error::io("look for", path, error))? {
        return Err(Error::AlreadyExists {
            path: path.to_owned(),
        });
    }
    Ok(())
}
