//! A file that gets its name when it is whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Options;
use super::create::{beside, check_place, folder_of};
use super::locks::lock_error;
use crate::error::{Error, Result};
use crate::log::file::sync_parent;
use crate::sys::LockFile;
use crate::sys::storage::{Storage, StorageFile};

/// A file under a temporary name, removed unless it is published.
///
/// Its maker has its lock: what bears the temporary name and is not locked was left by one that died.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    storage: &'a dyn Storage,
    path: &'a Path,
    temporary: PathBuf,
    pub(crate) file: Arc<dyn StorageFile>,
    _lock: LockFile,
    published: bool,
}

impl<'a> Draft<'a> {
    /// Begins a file that is to be named `path`, which must not exist.
    pub(crate) fn begin(options: &'a Options, path: &'a Path) -> Result<Self> {
        check_place(options, path)?;
        let storage = &*options.storage;
        let temporary = beside(path, "-part");
        let folder = folder_of(path);
        // One at a time makes names in a folder. Its own lock is taken, for a lock file would stay.
        let one = LockFile::open(folder).map_err(lock_error(folder))?;
        let entered = one.exclusive(options.timeout).map_err(lock_error(folder))?;
        let busy = |what| Error::Busy {
            path: temporary.clone(),
            what,
            process: None,
        };
        if !entered {
            return Err(busy("another process that makes a file in the folder"));
        }
        let failed = |error| Error::io("make", &temporary, error);
        if storage.exists(&temporary).map_err(failed)? {
            let left = LockFile::open(&temporary).map_err(lock_error(&temporary))?;
            if !left.try_exclusive().map_err(lock_error(&temporary))? {
                return Err(busy("another process that makes the same file"));
            }
            storage.remove(&temporary).map_err(failed)?;
        }
        let file = storage.create_new(&temporary).map_err(|error| {
            // It may be there all the same.
            let _ = storage.remove(&temporary);
            failed(error)
        })?;
        let lock = LockFile::open(&temporary).and_then(|lock| {
            lock.try_exclusive()?;
            Ok(lock)
        });
        match lock {
            Ok(lock) => Ok(Self {
                storage,
                path,
                temporary,
                file,
                _lock: lock,
                published: false,
            }),
            Err(error) => {
                let _ = storage.remove(&temporary);
                Err(lock_error(&temporary)(error))
            }
        }
    }

    /// Turns what the system says while the file is written into an error.
    pub(crate) fn failed(&self, error: std::io::Error) -> Error {
        Error::io("write", &self.temporary, error)
    }

    /// Makes it durable and gives it its name, unless something has that name by now.
    pub(crate) fn publish(mut self) -> Result<()> {
        let synced = self.file.sync();
        synced.map_err(|error| Error::sync("sync", &self.temporary, error))?;
        match self.storage.publish(&self.temporary, self.path) {
            Ok(()) => self.published = true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Error::AlreadyExists {
                    path: self.path.to_owned(),
                });
            }
            Err(error) => return Err(Error::io("give its name to", self.path, error)),
        }
        sync_parent(self.storage, self.path).inspect_err(|_| {
            // Whoever is told of a failure finds nothing.
            let _ = self.storage.remove(self.path);
        })
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.published {
            let _ = self.storage.remove(&self.temporary);
        }
    }
}
