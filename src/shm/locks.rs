//! The locks: what may happen at the same time.
//!
//! | lock | on | held |
//! |---|---|---|
//! | open-close | the store file | while opening and closing, to know first and last without a race; readers share it |
//! | presence | the store file | shared by all writing handles while they are open; exclusively by an exclusive one |
//! | checkpoint | the store file | for one checkpoint; shared by readers that need the pages to stay unchanged |
//! | readers | the store file | shared by reading handles while they are open |
//! | maps | the store file | by [each view](super::map_lease) of a store whose file can be cut off; exclusively for that |
//! | programs | the store file | by a program that asks for it ([`try_lock`](crate::Store::try_lock)) |
//! | liveness | the store file, one lock per slot | by the handle in that slot while it lives |
//! | session | `NAME-shm` | shared by all handles that use this shared memory |
//! | writer | [a word](super::writer_lock) of `NAME-shm` | for one batch |
//!
//! The locks on the store file are locks of single bytes far behind its end
//! (FORMAT.md, "Locks and concurrent readers"). So they hold under whatever name the file was opened, and there is no
//! lock file that a tidy person could remove.
//!
//! Who takes several takes them in the order open-close, writer, checkpoint, and then renews the view: docs/design.md,
//! "What waits for what".

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::file::layout::PAGE_LIMIT;
use crate::memtable::Digest;
use crate::page::PAGE_BYTES;
use crate::shm::coordination::{Coordination, MAX_HANDLES};
use crate::shm::place::Place;
use crate::sys::{FileId, FileState, LockedFile, RangeLock, state_of, wait_until};

/// The byte offset of each lock. The liveness locks follow each other.
const GATE: u64 = 1 << 62;
const PRESENCE: u64 = GATE + 1;
const CHECKPOINT: u64 = GATE + 2;
const READERS: u64 = GATE + 3;
const PROGRAMS: u64 = GATE + 4;
const MAPS: u64 = GATE + 5;
const LIVENESS: u64 = GATE + 16;

const _: () = assert!(MAPS < LIVENESS);
const _: () = assert!(
    GATE >= PAGE_LIMIT * PAGE_BYTES as u64,
    "behind any end of a file"
);
const _: () = assert!(LIVENESS + MAX_HANDLES as u64 <= i64::MAX as u64);

/// How long an exclusive lock is retried: a killed process releases its locks one after the other, and perhaps the
/// open-close lock first.
pub(crate) const DYING: Duration = Duration::from_secs(1);

/// How often the file behind a name may change while it is being locked.
const REPLACEMENTS: usize = 1000;

/// Turns the error of a lock call into one of this crate.
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

/// What a handle opens the store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intention {
    Read,
    Write,
}

/// The store file, opened only for its locks.
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

    /// Opens the locks of a file in the same directory that is to become a store.
    pub(crate) fn open_other(
        place: &Place,
        path: &Path,
        intention: Intention,
    ) -> Result<(Self, FileState)> {
        let failed = |error| Error::io("open", path, error);
        let write = intention == Intention::Write;
        let file = LockedFile::open(|| place.folder().open_file(path, write));
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::NotFound {
                path: path.to_owned(),
            },
            _ => failed(error),
        })?;
        let state = state_of(file.file()).map_err(failed)?;
        let locks = Self {
            file,
            id: state.id,
            path: path.to_owned(),
        };
        Ok((locks, state))
    }

    /// Returns the path of the file these locks are on.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns which file these locks are on.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Takes a lock, unless another handle has it or a share in it.
    fn try_exclusive(&self, byte: u64) -> Result<Option<RangeLock>> {
        let taken = self.file.try_exclusive(byte);
        taken.map_err(lock_error(&self.path))
    }

    /// Takes the open-close lock of a file that no handle has opened by its name yet; returns `None` if its creator
    /// lives.
    pub(crate) fn gate_of_draft(&self) -> Result<Option<RangeLock>> {
        self.try_exclusive(GATE)
    }

    /// Takes the checkpoint lock for a handle that writes pages, if it is free.
    pub(crate) fn try_checkpoint(&self) -> Result<Option<RangeLock>> {
        self.try_exclusive(CHECKPOINT)
    }

    /// Keeps other processes from checkpoints. Waits for a running one for at most `patience`.
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

    /// Announces a reader. This excludes nothing but a repair.
    pub(crate) fn tell_reading(&self) -> Result<Option<RangeLock>> {
        let taken = self.file.try_shared(READERS);
        taken.map_err(lock_error(&self.path))
    }

    /// Keeps readers out; returns `None` if there are any.
    pub(crate) fn keep_readers_out(&self) -> Result<Option<RangeLock>> {
        self.try_exclusive(READERS)
    }

    /// Keeps views out of a store whose file is to be cut off; returns `None` if there are any.
    pub(crate) fn keep_maps_out(&self) -> Result<Option<RangeLock>> {
        self.try_exclusive(MAPS)
    }

    /// Keeps the file from being cut off while it is mapped.
    pub(crate) fn tell_mapping(&self) -> Result<RangeLock> {
        let taken = self.file.try_shared(MAPS);
        let taken = taken.map_err(lock_error(&self.path))?;
        taken.ok_or_else(|| locked(&self.path))
    }

    /// Takes the lock that programs use among themselves; returns `None` if another open file has it, even one of this
    /// very handle.
    pub(crate) fn for_programs(place: &Place, id: FileId) -> Result<Option<RangeLock>> {
        place.expect(place, id)?;
        let (own, _) = Self::open(place, Intention::Write)?;
        let taken = own.file.try_exclusive(PROGRAMS);
        taken.map_err(lock_error(&own.path))
    }

    /// Refuses a store that another process has, where processes can't share one.
    fn refuse_another_process(&self) -> Result<()> {
        let elsewhere = self.file.is_of_another_process();
        match elsewhere.map_err(lock_error(&self.path))? {
            true => Err(locked(&self.path)),
            false => Ok(()),
        }
    }

    /// Returns how other handles have the store open for writing.
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

    /// Returns whether the handle lives. A handle whose slot was given to another does not. Only a lock that could be
    /// acquired proves that a handle is dead. Must not be called for this handle itself.
    pub(crate) fn is_alive(&self, shared: &Coordination, handle: u64) -> Result<bool> {
        let Some(index) = shared.slot_of(handle) else {
            return Ok(false);
        };
        self.is_slot_alive(index)
    }

    /// Returns whether a handle lives in this slot. Must not be called for this handle's own.
    pub(crate) fn is_slot_alive(&self, index: usize) -> Result<bool> {
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

/// The lock on opening and closing (the gate).
#[derive(Debug)]
pub(crate) struct OpenCloseLock {
    _lock: RangeLock,
    /// The state of the store file while the lock is held.
    pub(crate) state: FileState,
}

impl OpenCloseLock {
    /// Waits for the open-close lock of the file that has the store's name.
    pub(crate) fn enter(place: &Place, intention: Intention, patience: Duration) -> Result<Self> {
        for _ in 0..REPLACEMENTS {
            let (locks, state) = StoreLocks::open(place, intention)?;
            let gate = Self::take(&locks, state, intention, patience)?;
            // The previous holder may have removed the name, or given it to another file.
            if place.state()?.is_some_and(|found| found.id == state.id) {
                check_locks(place, intention)?;
                return Ok(gate);
            }
        }
        Err(Error::Moved {
            path: place.to_path_buf(),
        })
    }

    /// Takes the open-close lock of a file that this handle is creating; returns `None` if another process has it.
    pub(crate) fn of_draft(locks: &StoreLocks, state: FileState) -> Result<Option<Self>> {
        let taken = locks.gate_of_draft()?;
        Ok(taken.map(|lock| Self { _lock: lock, state }))
    }

    /// Waits for the open-close lock of a file that is open already.
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
        let mut taken = None;
        let begun = Instant::now();
        wait_until(patience, || {
            let asked = match intention {
                Intention::Write => locks.file.try_exclusive(GATE),
                Intention::Read => locks.file.try_shared(GATE),
            };
            taken = asked.map_err(lock_error(&locks.path))?;
            if taken.is_none() && begun.elapsed() >= DYING.min(patience) {
                locks.refuse_another_process()?;
            }
            Ok::<_, Error>(taken.is_some())
        })?;
        match taken {
            Some(lock) => Ok(Self { _lock: lock, state }),
            None => Err(Error::Busy {
                path: locks.path.clone(),
                what: "another handle to finish opening or closing the store",
                process: None,
            }),
        }
    }

    /// Opens the locks of a handle that is opening the store.
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

/// Refuses a file system that grants the same lock twice: its locks protect nothing.
fn check_locks(place: &Place, intention: Intention) -> Result<()> {
    let (second, _) = StoreLocks::open(place, intention)?;
    let excluded = second.file.is_excluded(GATE);
    match excluded.map_err(lock_error(place))? {
        true => Ok(()),
        false => Err(Error::NoLocks {
            path: place.to_path_buf(),
        }),
    }
}

/// A handle's share in the lock that shows which handles are present.
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

    /// Takes the store exclusively; returns `None` if any handle has it open for writing.
    pub(crate) fn alone(locks: &StoreLocks) -> Result<Option<Self>> {
        let taken = locks.file.try_exclusive(PRESENCE);
        let taken = taken.map_err(lock_error(&locks.path))?;
        Ok(taken.map(|lock| Self::of(locks, lock)))
    }

    /// Joins the other handles; returns `None` if one has the store exclusively. The caller holds the open-close lock.
    pub(crate) fn join(locks: &StoreLocks) -> Result<Option<Self>> {
        let taken = locks.file.try_shared(PRESENCE);
        let taken = taken.map_err(lock_error(&locks.path))?;
        Ok(taken.map(|lock| Self::of(locks, lock)))
    }

    /// Takes the store exclusively; returns `false` if others are still there. The caller holds the open-close lock.
    pub(crate) fn become_alone(&self) -> Result<bool> {
        self.lock.upgrade().map_err(lock_error(&self.path))
    }

    /// Lets other handles in. The caller holds the open-close lock.
    pub(crate) fn share(&self) -> Result<()> {
        let shared = self.lock.downgrade().map_err(lock_error(&self.path))?;
        match shared {
            true => Ok(()),
            false => Err(locked(&self.path)),
        }
    }
}

/// A handle's slot among all that have the store open.
#[derive(Debug)]
pub(crate) struct HandleSlotLease {
    pub(crate) index: usize,
    /// `None` in a handle that has the store exclusively.
    _liveness: Option<RangeLock>,
}

impl HandleSlotLease {
    /// Takes the only slot of a store that is open exclusively.
    pub(crate) fn alone(shared: &Coordination, handle: u64) -> Self {
        let lease = Self {
            index: 0,
            _liveness: None,
        };
        lease.take(shared, handle);
        lease
    }

    /// Takes a free slot. The caller holds the open-close lock, so no other handle takes one.
    pub(crate) fn among(locks: &StoreLocks, shared: &Coordination, handle: u64) -> Result<Self> {
        // Free slots first: the next rotation frees those of dead handles. Then those of handles that died and left nothing
        // to take back: if many were killed together, no one may be left who rotates.
        let is_free = |index: &usize| shared.slot(*index).handle() == 0;
        let leaves_nothing = |index: &usize| {
            let slot = shared.slot(*index);
            slot.handle() != 0 && slot.transaction() == 0 && slot.uncommitted() == 0
        };
        let free = (0..MAX_HANDLES).filter(is_free);
        for index in free.chain((0..MAX_HANDLES).filter(leaves_nothing)) {
            let taken = locks.file.try_exclusive(LIVENESS + index as u64);
            // A handle that is just leaving may still hold the lock, or have died with the writer lock: whoever takes
            // that over must not find its slot alive. The next slot will do.
            if let Some(liveness) = taken.map_err(lock_error(&locks.path))?
                && !shared.writer_lock().names(index)
            {
                let lease = Self {
                    index,
                    _liveness: Some(liveness),
                };
                lease.take(shared, handle);
                return Ok(lease);
            }
        }
        Err(Error::TooManyHandles {
            expected: MAX_HANDLES,
        })
    }

    fn take(&self, shared: &Coordination, handle: u64) {
        assert!(handle != 0, "a slot without a handle is free");
        let slot = shared.slot(self.index);
        slot.set_transaction(0, 0);
        slot.set_uncommitted(Digest::default(), 0);
        slot.set_process(u64::from(std::process::id()));
        slot.set_handle(handle);
    }
}
