//! Who may do what at the same time. Which waits for which: docs/design.md.
//!
//! | lock | on | held |
//! |---|---|---|
//! | gate | the store file | while opening and closing, so that first and last are told without a race; shared by readers |
//! | presence | the store file | shared by all writing handles while they are open; alone by an exclusive one |
//! | checkpoint | the store file | for one checkpoint; shared by readers that need the pages to stand still |
//! | readers | the store file | shared by reading handles while they are open |
//! | programs | the store file | by a program that asks for it ([`try_lock`](crate::Store::try_lock)) |
//! | liveness | the store file, one lock for each place | by the handle in that place while it lives |
//! | session | `NAME-shm` | shared by all handles that use this shared memory |
//! | writer | `NAME-shm`; while only one handle writes, a word in it ([`bias`](super::bias)) | for one batch |
//!
//! Those on the store file are locks of single bytes far behind its end (FORMAT.md, "Locks and concurrent readers"). So
//! they hold whatever name the file was opened by, and there is no lock file that a tidy person could remove.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::Digest;
use crate::error::{Error, Result};
use crate::store::coordination::place::Place;
use crate::store::coordination::shm::{Coordination, MAX_HANDLES};
use crate::sys::{FileId, FileState, LockedFile, RangeLock, state_of, wait_until};

/// The byte of each lock. Those of liveness follow each other.
const GATE: u64 = 1 << 62;
const PRESENCE: u64 = GATE + 1;
const CHECKPOINT: u64 = GATE + 2;
const READERS: u64 = GATE + 3;
const PROGRAMS: u64 = GATE + 4;
const LIVENESS: u64 = GATE + 16;

/// How long a lock that shuts everybody out is asked for again: a process that is killed lets go of
/// its locks one after the other, and of the gate perhaps first.
pub(crate) const DYING: Duration = Duration::from_secs(1);

/// How often the file behind a name may change while it is being locked.
const REPLACEMENTS: usize = 1000;

/// Turns what a lock call says into an error.
pub(crate) fn lock_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    |error| match error.kind() {
        std::io::ErrorKind::Unsupported => Error::NoLocks {
            path: path.to_owned(),
        },
        _ => Error::io("lock", path, error),
    }
}

pub(crate) fn locked(path: &Path) -> Error {
    Error::Locked {
        path: path.to_owned(),
    }
}

/// What a handle wants the store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intention {
    Read,
    Write,
}

/// The store file, opened for its locks alone.
#[derive(Debug, Clone)]
pub(crate) struct StoreLocks {
    file: Arc<LockedFile>,
    id: FileId,
    path: PathBuf,
}

impl StoreLocks {
    fn open(place: &Place, intention: Intention) -> Result<(Self, FileState)> {
        Self::open_other(place, place, intention)
    }

    /// Those of a file in the same folder that is to be a store.
    pub(crate) fn open_other(
        place: &Place,
        path: &Path,
        intention: Intention,
    ) -> Result<(Self, FileState)> {
        let failed = |error| Error::io("open", path, error);
        let write = intention == Intention::Write;
        let file = place.folder().open_file(path, write);
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::NotFound {
                path: path.to_owned(),
            },
            _ => failed(error),
        })?;
        let state = state_of(&file).map_err(failed)?;
        let locks = Self {
            file: LockedFile::of(file),
            id: state.id,
            path: path.to_owned(),
        };
        Ok((locks, state))
    }

    /// Which file it is.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// The gate of a file that nobody has opened by its name yet; `None` if its maker lives.
    pub(crate) fn gate_of_draft(&self) -> Result<Option<RangeLock>> {
        let taken = self.file.try_exclusive(GATE);
        taken.map_err(lock_error(&self.path))
    }

    /// Takes the checkpoint's lock for a handle that writes pages, if nobody has it.
    pub(crate) fn try_checkpoint(&self) -> Result<Option<RangeLock>> {
        let taken = self.file.try_exclusive(CHECKPOINT);
        taken.map_err(lock_error(&self.path))
    }

    /// Keeps other processes from checkpoints, waiting for one until `patience` is over.
    pub(crate) fn hold_checkpoints_off(
        &self,
        intention: Intention,
        patience: Duration,
    ) -> Result<Option<RangeLock>> {
        let taken = match intention {
            Intention::Write => self.file.exclusive(CHECKPOINT, patience),
            Intention::Read => self.file.shared(CHECKPOINT, patience),
        };
        taken.map_err(lock_error(&self.path))
    }

    /// Tells that somebody reads. Nobody is kept out by that but a repair.
    pub(crate) fn tell_reading(&self) -> Result<Option<RangeLock>> {
        let taken = self.file.try_shared(READERS);
        taken.map_err(lock_error(&self.path))
    }

    /// Keeps readers out; `None` if there are some.
    pub(crate) fn keep_readers_out(&self) -> Result<Option<RangeLock>> {
        let taken = self.file.try_exclusive(READERS);
        taken.map_err(lock_error(&self.path))
    }

    /// The lock that programs use among themselves; `None` if another open file has it, be it of this very handle.
    pub(crate) fn for_programs(place: &Place, id: FileId) -> Result<Option<RangeLock>> {
        place.expect(place, id)?;
        let (own, _) = Self::open(place, Intention::Write)?;
        let taken = own.file.try_exclusive(PROGRAMS);
        taken.map_err(lock_error(&own.path))
    }

    /// How others have the store open for writing.
    pub(crate) fn others(&self) -> Result<Others> {
        let failed = || lock_error(&self.path);
        if !self.file.is_held_by_another(PRESENCE).map_err(failed())? {
            return Ok(Others::None);
        }
        let alone = self.file.is_exclusive_elsewhere(PRESENCE);
        Ok(match alone.map_err(failed())? {
            true => Others::Alone,
            false => Others::Shared,
        })
    }

    /// Whether the handle in a place lives. One whose place has been given to another does not. Only a lock
    /// that can be had says that a handle is dead. Not for this handle itself.
    pub(crate) fn is_alive(&self, shared: &Coordination, handle: u64) -> Result<bool> {
        let Some(index) = shared.slot_of(handle) else {
            return Ok(false);
        };
        let held = self.file.is_held_by_another(LIVENESS + index as u64);
        held.map_err(lock_error(&self.path))
    }
}

/// How other handles have the store open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    None,
    Shared,
    /// One of them, exclusively.
    Alone,
}

/// The lock on opening and closing.
#[derive(Debug)]
pub(crate) struct OpenCloseLock {
    _lock: RangeLock,
    /// The store file while the gate is held.
    pub(crate) state: FileState,
}

impl OpenCloseLock {
    /// Waits for the gate of the file that has the store's name.
    pub(crate) fn enter(place: &Place, intention: Intention, patience: Duration) -> Result<Self> {
        for _ in 0..REPLACEMENTS {
            let (locks, state) = StoreLocks::open(place, intention)?;
            let gate = Self::take(&locks, state, intention, patience)?;
            // Whoever had the gate may have removed the name, or given it to another file.
            if place.state()?.is_some_and(|found| found.id == state.id) {
                check_locks(place, intention)?;
                return Ok(gate);
            }
        }
        Err(Error::Moved {
            path: place.to_path_buf(),
        })
    }

    /// The gate of a file that this handle is making.
    pub(crate) fn of_draft(locks: &StoreLocks, state: FileState) -> Result<Self> {
        match locks.gate_of_draft()? {
            Some(lock) => Ok(Self { _lock: lock, state }),
            None => Err(locked(&locks.path)),
        }
    }

    /// Waits for the gate of a file that is open already.
    pub(crate) fn enter_again(place: &Place, id: FileId, patience: Duration) -> Result<Self> {
        place.expect(place, id)?;
        let (locks, state) = StoreLocks::open(place, Intention::Write)?;
        if state.id != id {
            return Err(Error::Moved {
                path: place.to_path_buf(),
            });
        }
        Self::take(&locks, state, Intention::Write, patience)
    }

    fn take(
        locks: &StoreLocks,
        state: FileState,
        intention: Intention,
        patience: Duration,
    ) -> Result<Self> {
        let taken = match intention {
            Intention::Write => locks.file.exclusive(GATE, patience),
            Intention::Read => locks.file.shared(GATE, patience),
        };
        match taken.map_err(lock_error(&locks.path))? {
            Some(lock) => Ok(Self { _lock: lock, state }),
            None => Err(Error::Busy {
                path: locks.path.clone(),
                what: "another handle to finish opening or closing the store",
                process: None,
            }),
        }
    }

    /// Opens the locks of a handle that is coming in.
    pub(crate) fn locks(&self, place: &Place, intention: Intention) -> Result<StoreLocks> {
        let (locks, state) = StoreLocks::open(place, intention)?;
        if state.id != self.state.id {
            return Err(Error::Moved {
                path: place.to_path_buf(),
            });
        }
        Ok(locks)
    }
}

/// A file system that grants the same lock twice protects nobody.
fn check_locks(place: &Place, intention: Intention) -> Result<()> {
    let (second, _) = StoreLocks::open(place, intention)?;
    let held = second.file.is_held_by_another(GATE);
    match held.map_err(lock_error(place))? {
        true => Ok(()),
        false => Err(Error::NoLocks {
            path: place.to_path_buf(),
        }),
    }
}

/// A handle's part in telling who is there.
#[derive(Debug)]
pub(crate) struct PresenceLock {
    lock: RangeLock,
    path: PathBuf,
}

impl PresenceLock {
    fn of(locks: &StoreLocks, lock: RangeLock) -> Self {
        Self {
            lock,
            path: locks.path.clone(),
        }
    }

    /// Takes the store alone; `None` if anybody has it open for writing.
    pub(crate) fn alone(locks: &StoreLocks) -> Result<Option<Self>> {
        let taken = locks.file.try_exclusive(PRESENCE);
        let taken = taken.map_err(lock_error(&locks.path))?;
        Ok(taken.map(|lock| Self::of(locks, lock)))
    }

    /// Joins the others; `None` if somebody has the store alone. Called inside the gate.
    pub(crate) fn join(locks: &StoreLocks) -> Result<Option<Self>> {
        let taken = locks.file.try_shared(PRESENCE);
        let taken = taken.map_err(lock_error(&locks.path))?;
        Ok(taken.map(|lock| Self::of(locks, lock)))
    }

    /// Takes the store alone, unless others are there still. Called inside the gate.
    pub(crate) fn become_alone(&self) -> Result<bool> {
        self.lock.upgrade().map_err(lock_error(&self.path))
    }

    /// Lets others in. Called inside the gate.
    pub(crate) fn share(&self) -> Result<()> {
        let shared = self.lock.downgrade().map_err(lock_error(&self.path))?;
        match shared {
            true => Ok(()),
            false => Err(locked(&self.path)),
        }
    }
}

/// A handle's place among all that have the store open.
#[derive(Debug)]
pub(crate) struct HandleSlotLease {
    pub(crate) index: usize,
    /// Absent in a handle that has the store alone.
    _liveness: Option<RangeLock>,
}

impl HandleSlotLease {
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
    pub(crate) fn among(locks: &StoreLocks, shared: &Coordination, handle: u64) -> Result<Self> {
        // Free places first. Those of the dead are freed by the next rotation.
        for index in 0..MAX_HANDLES {
            if shared.slot(index).handle() != 0 {
                continue;
            }
            let taken = locks.file.try_exclusive(LIVENESS + index as u64);
            // Held still by one that is being freed: the next place will do.
            if let Some(liveness) = taken.map_err(lock_error(&locks.path))? {
                let seat = Self {
                    index,
                    _liveness: Some(liveness),
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

/// Sees that whoever was alone so far takes the writer lock as all do from now on.
pub(crate) fn revoke_bias(
    locks: &StoreLocks,
    shared: &Coordination,
    patience: Duration,
) -> Result<()> {
    shared.bias().revoke();
    let is_out = || match shared.bias().inside() {
        0 => Ok(true),
        handle => locks.is_alive(shared, handle).map(|lives| !lives),
    };
    if wait_until(patience, is_out)? {
        return Ok(());
    }
    let holder = shared.slot_of(shared.bias().inside());
    Err(Error::Busy {
        path: locks.path.clone(),
        what: "the writer lock",
        process: holder.map(|slot| shared.slot(slot).process()),
    })
}
