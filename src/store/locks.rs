//! Who may do what at the same time. Which waits for which: docs/design.md.
//!
//! | lock | on | held |
//! |---|---|---|
//! | gate | `NAME-gate` | while opening and closing, so that first and last are told without a race |
//! | presence | `NAME-lock` | shared by all handles while they are open; alone by an exclusive one |
//! | writer | `NAME-shm`; while only one handle writes, a word in it ([`bias`](super::bias)) | for one batch |
//! | checkpoint | the store file | for one checkpoint |
//! | liveness | `NAME-handle.K` | by the handle in place K while it lives |
//!
//! None is upgraded, and no lock file is removed while anybody may hold it: gate and presence
//! never, the others by the last one out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::coordination::{Coordination, MAX_HANDLES};
use super::create::beside;
use crate::buffer::Digest;
use crate::error::{Error, Result};
use crate::sys::{LockFile, wait_until};

/// The file of a handle's liveness lock.
pub(crate) fn liveness_path(store: &Path, slot: usize) -> PathBuf {
    beside(store, &format!("-handle.{slot}"))
}

/// Turns what a lock call says into an error.
pub(crate) fn lock_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    |error| match error.kind() {
        std::io::ErrorKind::Unsupported => Error::NoLocks {
            path: path.to_owned(),
        },
        _ => Error::io("lock", path, error),
    }
}

/// The lock on opening and closing.
#[derive(Debug)]
pub(crate) struct Gate {
    _file: LockFile,
}

impl Gate {
    /// Waits for the gate. With `make`, the file is made if there is none.
    pub(crate) fn enter(store: &Path, make: bool, patience: Duration) -> Result<Self> {
        let path = beside(store, "-gate");
        let open = |path: &Path| {
            if make {
                LockFile::create(path)
            } else {
                LockFile::open(path)
            }
        };
        let file = open(&path).map_err(lock_error(&path))?;
        if !file.exclusive(patience).map_err(lock_error(&path))? {
            return Err(Error::Busy {
                path,
                what: "another handle to finish opening or closing the store",
                process: None,
            });
        }
        // A file system that grants the same lock twice protects nobody.
        let second = open(&path).map_err(lock_error(&path))?;
        if second.try_exclusive().map_err(lock_error(&path))? {
            return Err(Error::NoLocks { path });
        }
        Ok(Self { _file: file })
    }
}

/// A handle's part in telling who is there.
#[derive(Debug)]
pub(crate) struct Presence {
    _file: LockFile,
}

impl Presence {
    /// Takes the store alone; `None` if anybody has it open.
    pub(crate) fn alone(store: &Path) -> Result<Option<Self>> {
        let path = beside(store, "-lock");
        let file = LockFile::create(&path).map_err(lock_error(&path))?;
        let taken = file.try_exclusive().map_err(lock_error(&path))?;
        Ok(taken.then_some(Self { _file: file }))
    }

    /// Joins the others; `None` if somebody has the store alone. Called inside the gate.
    pub(crate) fn join(store: &Path) -> Result<Option<Self>> {
        let path = beside(store, "-lock");
        let file = LockFile::create(&path).map_err(lock_error(&path))?;
        let taken = file.try_shared().map_err(lock_error(&path))?;
        Ok(taken.then_some(Self { _file: file }))
    }
}

/// A handle's place among all that have the store open.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) index: usize,
    /// Absent in a handle that has the store alone.
    _liveness: Option<LockFile>,
}

impl Seat {
    /// The only seat there is.
    pub(crate) fn alone(shared: &Coordination, handle: u64) -> Self {
        let seat = Self {
            index: 0,
            _liveness: None,
        };
        seat.take(shared, handle);
        seat
    }

    /// Takes a free place. Called inside the gate, so nobody else does.
    pub(crate) fn among(store: &Path, shared: &Coordination, handle: u64) -> Result<Self> {
        // Free places first. Those of the dead are freed by the next rotation.
        for index in 0..MAX_HANDLES {
            if shared.slot(index).handle() != 0 {
                continue;
            }
            let path = liveness_path(store, index);
            let file = LockFile::create(&path).map_err(lock_error(&path))?;
            // Held still by one that is being freed: the next place will do.
            if file.try_exclusive().map_err(lock_error(&path))? {
                let seat = Self {
                    index,
                    _liveness: Some(file),
                };
                seat.take(shared, handle);
                return Ok(seat);
            }
        }
        Err(Error::TooManyHandles {
            expected: MAX_HANDLES,
        })
    }

    fn take(&self, shared: &Coordination, handle: u64) {
        let slot = shared.slot(self.index);
        slot.set_transaction(0);
        slot.set_digest(Digest::default());
        slot.set_process(u64::from(std::process::id()));
        slot.set_handle(handle);
    }
}

/// Whether the handle in a place lives. One whose place has been given to another does not.
pub(crate) fn is_alive(store: &Path, shared: &Coordination, handle: u64) -> Result<bool> {
    let Some(index) = shared.slot_of(handle) else {
        return Ok(false);
    };
    let path = liveness_path(store, index);
    let file = match LockFile::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(lock_error(&path)(error)),
    };
    // Shared, so that two who ask at once don't take each other for the handle.
    let dead = file.try_shared().map_err(lock_error(&path))?;
    Ok(!dead)
}

/// Sees that whoever was alone so far takes the writer lock as all do from now on.
pub(crate) fn revoke_bias(path: &Path, shared: &Coordination, patience: Duration) -> Result<()> {
    shared.bias().revoke();
    let is_out = || match shared.bias().inside() {
        0 => Ok(true),
        handle => is_alive(path, shared, handle).map(|lives| !lives),
    };
    if wait_until(patience, is_out)? {
        return Ok(());
    }
    let holder = shared.slot_of(shared.bias().inside());
    Err(Error::Busy {
        path: path.to_owned(),
        what: "the writer lock",
        process: holder.map(|slot| shared.slot(slot).process()),
    })
}
