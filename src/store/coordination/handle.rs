//! One handle of an open store: how it has it open, and whether it may go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::buffer::{Digest, Wrong};
use crate::error::{Error, Result};
use crate::log::{LogError, LogFile};
use crate::store::coordination::locks::{HandleSlotLease, PresenceLock, StoreLocks};
use crate::store::coordination::place::Place;
use crate::store::coordination::shm::{Coordination, DAMAGED, LOST};
use crate::sys::{Process, RangeLock};

/// How a handle has the store open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// For writing, with nobody else: buffers and coordination are private.
    Alone,
    /// For writing, with others.
    Shared,
    /// For reading what others write, as they write it.
    Watching,
    /// For reading what was there when it was opened.
    Snapshot,
}

/// The locks of a handle that shares the store.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) presence: PresenceLock,
    pub(crate) seat: HandleSlotLease,
}

/// One handle. It refuses all work once it is closed, or poisoned by a failure after which nobody can know what the disk
/// holds.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) place: Place,
    pub(crate) access: Access,
    /// Its number in the logs.
    pub(crate) number: u64,
    /// Its slot in the shared memory.
    pub(crate) seat: usize,
    pub(crate) locks: StoreLocks,
    pub(crate) shared: Arc<Coordination>,
    pub(crate) held: Mutex<Option<Held>>,
    /// Of a handle that only reads: tells that it does.
    pub(crate) reading: Mutex<Option<RangeLock>>,
    process: Process,
    poison: OnceLock<Arc<Error>>,
    closed: AtomicBool,
}

impl Handle {
    pub(crate) fn new(
        locks: StoreLocks,
        place: Place,
        (access, number): (Access, u64),
        shared: Arc<Coordination>,
        (held, reading): (Option<Held>, Option<RangeLock>),
    ) -> Self {
        Self {
            place,
            access,
            number,
            seat: held.as_ref().map_or(0, |held| held.seat.index),
            locks,
            shared,
            held: Mutex::new(held),
            reading: Mutex::new(reading),
            process: Process::current(),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Refuses all work from here on.
    pub(crate) fn mark_closed(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether this process opened the handle, and not one that it was forked from.
    pub(crate) fn is_own(&self) -> bool {
        self.process.is_current()
    }

    /// The same by the process's number too, for what must not be done in a copy at any price.
    pub(crate) fn is_own_for_certain(&self) -> bool {
        self.is_own() && self.process.has_its_number()
    }

    /// Refuses work on a closed or poisoned handle.
    #[inline]
    pub(crate) fn check_usable(&self) -> Result<()> {
        if let Some(cause) = self.poison.get() {
            return Err(Error::Poisoned {
                cause: Arc::clone(cause),
            });
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        match self.shared.poisoned() {
            0 => Ok(()),
            why => Err(self.poisoned_by_another(why)),
        }
    }

    #[cold]
    fn poisoned_by_another(&self, why: u64) -> Error {
        self.poison(match why {
            LOST => Error::Io {
                action: "go on from what another handle lost in a failed sync of",
                path: self.place.to_path_buf(),
                source: std::io::ErrorKind::Other.into(),
            },
            got => Error::SharedMemory {
                path: self.place.to_path_buf(),
                word: "poisoned",
                expected: "0".to_owned(),
                got,
            },
        })
    }

    /// The same, and writing through a handle that only reads or was forked.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if !self.writes() {
            return Err(Error::ReadOnly);
        }
        if !self.is_own() {
            return Err(Error::Forked);
        }
        self.check_usable()
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(self.access, Access::Alone | Access::Shared)
    }

    /// Passes an outcome on, and poisons the handle if it is one after which nobody can know what
    /// the disk holds. Lack of room is told before any promise, so it is not.
    pub(crate) fn poison_on_failure<T>(&self, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(
                error @ (Error::Io { .. }
                | Error::Format { .. }
                | Error::Log { .. }
                | Error::SharedMemory { .. }
                | Error::Moved { .. }),
            ) => Err(self.poison(error)),
            Err(error) => Err(error),
            Ok(done) => Ok(done),
        }
    }

    /// Ends all work on this handle; reopening recovers what is durable. The others go on: what
    /// this one left half done they mend as after a death, and what a failed sync left in doubt
    /// they write again.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let lost = LogError::Lost { offset: 0 };
        if let Error::Log { source, .. } = &error
            && std::mem::discriminant(source) == std::mem::discriminant(&lost)
        {
            // What the buffer tells of is nowhere else any more.
            self.shared.set_poisoned(LOST);
        }
        if matches!(error, Error::SharedMemory { .. }) {
            self.shared.set_poisoned(DAMAGED);
        }
        let cause = Arc::clone(self.poison.get_or_init(|| Arc::new(error)));
        Error::Poisoned { cause }
    }

    /// Whether this handle can't go on after a failure of its own.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poison.get().is_some()
    }

    /// Sees that store and log still have their names: what goes into a file without one is lost when the last
    /// handle closes it. Ends all work on this handle if not.
    pub(crate) fn check_names(&self, log: Option<&LogFile>) -> Result<()> {
        let named = self.place.expect(&self.place, self.locks.id());
        let named = named.and_then(|()| match log.and_then(|log| Some((log, log.id?))) {
            Some((log, id)) => match self.place.expect(&log.path, id) {
                // Another handle has brought it into the pages meanwhile, and removed it.
                Err(Error::Moved { .. }) if self.shared.settled() > log.generation => Ok(()),
                outcome => outcome,
            },
            None => Ok(()),
        });
        self.poison_on_failure(named)
    }

    /// Ends the work of all handles on a memory that can't be believed.
    #[cold]
    pub(crate) fn distrust(&self, wrong: Wrong) -> Error {
        self.poison(wrong.at(&self.place))
    }

    /// Checks a handle's uncommitted keys, as the table has them: what is missing there would be gone with the log.
    pub(crate) fn expect_keys(
        &self,
        handle: u64,
        expected: Digest,
        keys: &[u64],
    ) -> Result<(), Error> {
        let found = Digest::of(keys);
        if found == expected {
            return Ok(());
        }
        Err(self.distrust(Wrong {
            word: "table",
            expected: format!("{} keys of handle {handle}, as they were", expected.keys),
            got: found.keys,
        }))
    }
}

impl Wrong {
    pub(crate) fn at(self, store: &std::path::Path) -> Error {
        Error::SharedMemory {
            path: store.to_owned(),
            word: self.word,
            expected: self.expected,
            got: self.got,
        }
    }
}
