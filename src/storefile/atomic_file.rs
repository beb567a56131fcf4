//! A file that gets its name once it is complete.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::config::open_options::OpenOptions;
use crate::error::{Error, Result};
use crate::file::draft_mark;
use crate::file::header::STORE_MAGIC;
use crate::file::side_file::{NEW_STORE, UNFINISHED_COPY};
use crate::shm::locks::{Intention, OpenCloseLock, Others, StoreLocks, locked};
use crate::shm::place::{Place, folder_of};
use crate::storefile::leftovers::{Leftover, remove_leftover};
use crate::storefile::unfinished::{is_unfinished, is_unfinished_at, refuse_emptied};
use crate::sys::storage::{Owner, Storage, StorageFile, write_all_at};
use crate::sys::{state_of, wait_until};
use crate::wal::file::sync_parent;

/// What is created under a temporary name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making {
    pub(super) suffix: &'static str,
    pub(crate) action: &'static str,
    naming: &'static str,
    /// Whether to wait for another process that creates the same file: a store is created quickly, a copy is not.
    waits: bool,
    empty: EmptyFile,
    /// Whether a whole delta under the temporary name was left by a creator that died.
    pub(super) leaves_deltas: bool,
}

/// What becomes of an empty file that has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EmptyFile {
    /// The new file is written into it. A process that has it locked or open goes on with the store.
    IsFilled,
    /// The new file takes its name, and its owner and mode. It is empty up to that moment: a copy takes long.
    IsReplaced,
}

/// A store, which is opened once it has its name.
pub(crate) const STORE: Making = Making {
    suffix: NEW_STORE,
    action: "create the store",
    naming: "give its name to the new store",
    waits: true,
    empty: EmptyFile::IsFilled,
    leaves_deltas: false,
};

/// A copy of a store.
pub(crate) const COPY: Making = Making {
    suffix: UNFINISHED_COPY,
    action: "make",
    naming: "give its name to",
    waits: false,
    empty: EmptyFile::IsReplaced,
    leaves_deltas: false,
};

/// A delta.
pub(crate) const DELTA: Making = Making {
    leaves_deltas: true,
    ..COPY
};

/// The bits of a mode that let the owner read and write.
const OWNER_WRITES: u32 = 0o600;

/// How often a file may be taken for a leftover before it is locked, until the creator waits.
const MOST_REMOVALS: usize = 100;

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
    /// The lock of the empty file that it is to replace.
    replaced: Option<OpenCloseLock>,
}

/// What came of an attempt to begin a file.
enum Attempt {
    Begun(Box<AtomicFile>),
    /// Another process is making the same file.
    IsMade,
    /// The name went to another file just now.
    Again,
}

/// An empty file that has the name of the new one, locked against everybody who would open or fill it.
struct Empty {
    place: Place,
    gate: OpenCloseLock,
    file: Arc<dyn StorageFile>,
}

impl Empty {
    fn take(options: &OpenOptions, path: &Path, making: Making) -> Result<Self> {
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
        Ok(Self { place, gate, file })
    }
}

impl AtomicFile {
    /// Begins a file to be named `path`, which must not exist or be an empty file, with the owner and the mode of the file
    /// it is derived from, or of the empty file.
    pub(crate) fn begin(
        options: &OpenOptions,
        path: &Path,
        making: Making,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let empty = match is_unfinished_file(options, path)? {
            true => Some(Empty::take(options, path, making)?),
            false => None,
        };
        let (place, owner, replaced) = match empty {
            Some(empty) if making.empty == EmptyFile::IsFilled => {
                return Self::begin_in_place(options, empty, making);
            }
            Some(empty) => (empty.place, Some(empty.gate.state.owner), Some(empty.gate)),
            None => (Place::of_new(path)?, owner, None),
        };
        // A copy of a store that is protected from writing is written, too, and it is its owner's.
        let owner = owner.map(|owner| Owner {
            mode: owner.mode | OWNER_WRITES,
            ..owner
        });
        let place = place.with_owner(owner)?;
        let options = options.within(&place);
        let is_free = || match &replaced {
            Some(_) => Ok(()),
            None => refuse_existing(&options, path),
        };
        let mut begun = None;
        let patience = match making.waits {
            true => options.timeout,
            false => Duration::ZERO,
        };
        wait_until(patience, || {
            begun = Self::begin_now(&options, &place, (path, &is_free), making)?;
            if begun.is_some() {
                // Another process may have given the name to its file just before. From here on, none can.
                is_free()?;
            }
            Ok::<_, Error>(begun.is_some())
        })?;
        let mut begun = begun.ok_or_else(|| Error::Busy {
            path: place.beside(making.suffix),
            what: "another process that creates the same file",
            process: None,
        })?;
        begun.replaced = replaced;
        Ok(begun)
    }

    /// Creates the temporary file; returns `None` if another process is creating the same file.
    fn begin_now(
        options: &OpenOptions,
        place: &Place,
        (path, is_free): (&Path, &impl Fn() -> Result<()>),
        making: Making,
    ) -> Result<Option<Self>> {
        for _ in 0..MOST_REMOVALS {
            is_free()?;
            refuse_closed_folder(path)?;
            match Self::try_begin(options, place, making)? {
                Attempt::Begun(file) => return Ok(Some(*file)),
                Attempt::IsMade => return Ok(None),
                Attempt::Again => {}
            }
        }
        Ok(None)
    }

    fn try_begin(options: &OpenOptions, place: &Place, making: Making) -> Result<Attempt> {
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
            replaced: None,
        };
        draft.mark_as_begun()?;
        Ok(Attempt::Begun(Box::new(draft)))
    }

    /// Begins a store in an empty file.
    fn begin_in_place(options: &OpenOptions, empty: Empty, making: Making) -> Result<Self> {
        let Empty { place, gate, file } = empty;
        let length = file.length();
        let length = length.map_err(|error| Error::io(making.action, &place, error))?;
        let draft = Self {
            temporary: place.to_path_buf(),
            storage: options.within(&place).storage,
            place,
            file,
            gate: Some(gate),
            making,
            is_in_place: true,
            replaced: None,
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
        let (file, undo) = (Arc::clone(&self.file), self.undoing());
        let _gate = self.name()?;
        if let Err(error) = sync_parent(&*storage, &place) {
            // After a reported failure, no file may remain. Without the lock, another process might have opened it.
            undo();
            return Err(error);
        }
        if draft_mark::clear(&*file).is_ok_and(|was_set| was_set) {
            // If the mark stays, the first to write to the store takes it away.
            let _ = file.sync();
        }
        Ok(())
    }

    /// Does the same for a file whose name becomes durable when it is first opened, and hands on the open-close lock.
    pub(crate) fn name(mut self) -> Result<OpenCloseLock> {
        // Without its lock, another creator would take it for a leftover, and remove it.
        assert!(self.gate.is_some(), "a file that has its name");
        let synced = self.file.sync();
        synced.map_err(|error| Error::sync("sync", &self.temporary, error))?;
        if self.is_in_place {
            return self.gate.take().ok_or(Error::Closed);
        }
        let published = match self.replaced.take() {
            None => self.storage.publish(&self.temporary, &self.place),
            Some(empty) => {
                self.place.expect(&self.place, empty.state.id)?;
                self.place.folder().rename(&self.temporary, &self.place)
            }
        };
        match published {
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

/// Refuses a path in a directory in which this process may create nothing. The system's own error would name the file.
fn refuse_closed_folder(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    let expected = crate::sys::expect_to_make_in(folder);
    expected.map_err(|error| Error::io("create a file in", folder, error))
}

/// Returns whether a path names an empty file, or one that a creator has begun in its place.
pub(crate) fn is_unfinished_file(options: &OpenOptions, path: &Path) -> Result<bool> {
    let found = is_unfinished_at(options, path);
    found.map_err(|error| Error::io("look at", path, error))
}

/// Refuses a path that already exists.
pub(crate) fn refuse_existing(options: &OpenOptions, path: &Path) -> Result<()> {
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
