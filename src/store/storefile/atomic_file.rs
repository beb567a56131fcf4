//! A file that gets its name once it is complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::file::header::STORE_MAGIC;
use crate::log::file::sync_parent;
use crate::store::config::options::Options;
use crate::store::coordination::locks::{Intention, OpenCloseLock, StoreLocks, lock_error};
use crate::store::coordination::place::{Place, folder_of};
use crate::sys::storage::{Owner, Storage, StorageFile, write_all_at};
use crate::sys::{LockFile, wait_until};

/// What is created under a temporary name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making {
    suffix: &'static str,
    pub(crate) action: &'static str,
    naming: &'static str,
    /// Whether to wait for another process that creates the same file: a store is created quickly, a copy is not.
    waits: bool,
}

/// A store, which is opened once it has its name.
pub(crate) const STORE: Making = Making {
    suffix: "-new",
    action: "create the store",
    naming: "give its name to the new store",
    waits: true,
};

/// A copy of a store, or a delta.
pub(crate) const COPY: Making = Making {
    suffix: "-part",
    action: "make",
    naming: "give its name to",
    waits: false,
};

/// A file under a temporary name, removed unless it is published.
///
/// Its creator holds its open-close lock. A file with the temporary name whose lock is free was left by a creator that
/// died. The file begins with a magic from the first moment, so that the next creator may remove it.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    pub(crate) place: Place,
    storage: Arc<dyn Storage>,
    pub(crate) temporary: PathBuf,
    pub(crate) file: Arc<dyn StorageFile>,
    /// Held until the file is published, then handed on.
    gate: Option<OpenCloseLock>,
    making: Making,
}

impl AtomicFile {
    /// Begins a file to be named `path`, which must not exist, with the owner and the mode of the file it is derived
    /// from.
    pub(crate) fn begin(
        options: &Options,
        path: &Path,
        making: Making,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let place = Place::of_new(path)?.with_owner(owner)?;
        let options = options.within(&place);
        let mut begun = None;
        let patience = match making.waits {
            true => options.timeout,
            false => Duration::ZERO,
        };
        wait_until(patience, || {
            refuse_existing(&options, path)?;
            refuse_closed_folder(path)?;
            begun = Self::try_begin(&options, &place, making)?;
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
    fn try_begin(options: &Options, place: &Place, making: Making) -> Result<Option<Self>> {
        let storage = &options.storage;
        let temporary = place.beside(making.suffix);
        // Only one process at a time creates names in a directory. This locks the directory itself, since a lock file
        // would stay behind.
        let folder = place.folder();
        let failed = || lock_error(folder.path());
        let one = LockFile::open(|| folder.open_itself()).map_err(failed())?;
        if !one.exclusive(options.timeout).map_err(failed())? {
            return Err(Error::Busy {
                path: temporary,
                what: "another process that creates a file in the folder",
                process: None,
            });
        }
        let failed = |error| Error::io(making.action, &temporary, error);
        if storage.exists(&temporary).map_err(failed)? {
            match remove_leftover(&**storage, place, &temporary) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                // Its creator has just given it its final name.
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let made = storage.create_new(&temporary).and_then(|file| {
            write_all_at(&*file, &STORE_MAGIC, 0)?;
            Ok(file)
        });
        let made = made.map_err(failed).and_then(|file| {
            let synced = file.sync();
            synced.map_err(|error| Error::sync(making.action, &temporary, error))?;
            Ok(file)
        });
        let remove = || {
            let _ = storage.remove(&temporary);
        };
        // The file may exist even after an error.
        let file = made.inspect_err(|_| remove())?;
        let gate = StoreLocks::open_other(place, &temporary, Intention::Write)
            .and_then(|(locks, state)| OpenCloseLock::of_draft(&locks, state));
        let gate = gate.inspect_err(|_| remove())?;
        Ok(Some(Self {
            place: place.clone(),
            storage: Arc::clone(storage),
            file,
            gate: Some(gate),
            temporary,
            making,
        }))
    }

    /// Returns the storage of the directory's files.
    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.storage)
    }

    /// Turns a system error from writing the file into one of this crate.
    pub(crate) fn failed(&self, error: std::io::Error) -> Error {
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
        match self.storage.publish(&self.temporary, &self.place) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
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
            let _ = self.storage.remove(&self.temporary);
        }
    }
}

/// Removes what a dead creator left; returns `false` if the creator lives.
fn remove_leftover(storage: &dyn Storage, place: &Place, temporary: &Path) -> Result<bool> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NotFound {
            path: temporary.to_owned(),
        },
        _ => Error::io("remove the leftovers of", temporary, error),
    };
    if !place.folder().is_ours(temporary).map_err(failed)? {
        return Err(Error::InTheWay {
            path: temporary.to_owned(),
        });
    }
    let (left, _) = StoreLocks::open_other(place, temporary, Intention::Write)?;
    match left.gate_of_draft()? {
        Some(_gate) => storage.remove(temporary).map_err(failed).map(|()| true),
        None => Ok(false),
    }
}

/// Refuses a path in a directory in which this process may create nothing. The system's own error would name the file.
fn refuse_closed_folder(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    match crate::sys::may_make_in(folder) {
        true => Ok(()),
        false => Err(Error::PermissionDenied {
            action: "create a file in",
            path: folder.to_owned(),
        }),
    }
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
