//! The session: the lock by which writing handles show that they use the shared memory of a store.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::shm::place::Place;
use crate::sys::{LockedFile, RangeLock, lock, state_of};

/// The byte of `NAME-shm` whose lock all handles of a session share.
const SESSION: u64 = 1 << 62;

/// One handle's part in a session.
#[derive(Debug)]
pub(crate) struct SessionLock {
    /// The file of the shared words, opened for its lock alone: a map keeps its open file, and so that file's locks, in
    /// a forked child too.
    file: Arc<LockedFile>,
    joined: Mutex<Option<RangeLock>>,
}

impl SessionLock {
    /// Opens the file of the shared words again, without joining.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the file at the path is not `mapped` any more.
    pub(crate) fn open(place: &Place, path: &Path, mapped: &File) -> io::Result<Self> {
        let file = LockedFile::open(|| place.folder().open_file(path, false))?;
        if state_of(mapped)?.id != state_of(file.file())?.id {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self {
            file,
            joined: Mutex::default(),
        })
    }

    pub(crate) fn join(&self) -> io::Result<()> {
        *lock(&self.joined) = self.file.try_shared(SESSION)?;
        Ok(())
    }

    pub(crate) fn leave(&self) {
        drop(lock(&self.joined).take());
    }

    /// Returns whether a handle has joined, other than through this opening of the file.
    pub(crate) fn is_joined_by_another(&self) -> io::Result<bool> {
        self.file.is_held_by_another(SESSION)
    }

    /// Returns whether any handle has joined the session of the file at a path. There need be no such file.
    pub(crate) fn is_joined_at(place: &Place, path: &Path) -> io::Result<bool> {
        match LockedFile::open(|| place.folder().open_file(path, false)) {
            Ok(file) => file.is_held_by_another(SESSION),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
