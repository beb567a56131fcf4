//! One handle of an open store: how it has the store open, and whether it may continue.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::error::{Error, Result};
use crate::memtable::{Digest, ShmCorruption};
use crate::shm::coordination::{Coordination, DAMAGED, LOST};
use crate::shm::locks::{HandleSlotLease, PresenceLock, StoreLocks};
use crate::shm::place::Place;
use crate::sys::{Process, RangeLock};
use crate::wal::{LogError, LogFile};

/// How a handle has the store open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// For writing, exclusively: buffers and coordination are private.
    Alone,
    /// For writing, with other handles.
    Shared,
    /// For reading what others write, as they write it.
    Watching,
    /// For reading what was there when the handle was opened.
    Snapshot,
}

/// The locks of a handle that shares the store.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) presence: PresenceLock,
    pub(crate) lease: HandleSlotLease,
}

/// One handle. It refuses all work once it is closed, or poisoned by a failure after which the state of the disk is
/// unknown.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) place: Place,
    pub(crate) access: Access,
    /// The handle's number in the logs.
    pub(crate) number: u64,
    /// The handle's slot in the shared memory.
    pub(crate) slot: usize,
    pub(crate) locks: StoreLocks,
    pub(crate) shared: Arc<Coordination>,
    pub(crate) held: Mutex<Option<Held>>,
    /// The lock that announces a handle that only reads.
    pub(crate) reading: Mutex<Option<RangeLock>>,
    process: Process,
    poison: OnceLock<Arc<Error>>,
    /// Whether it goes on, as one of the constants below.
    state: AtomicU8,
}

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
/// The name of the store leads nowhere.
const UNNAMED: u8 = 2;
/// The name of the store leads to another file than the one that is open.
const REPLACED: u8 = 3;

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
            slot: held.as_ref().map_or(0, |held| held.lease.index),
            locks,
            shared,
            held: Mutex::new(held),
            reading: Mutex::new(reading),
            process: Process::current(),
            poison: OnceLock::new(),
            state: AtomicU8::new(OPEN),
        }
    }

    /// Refuses all work from here on.
    pub(crate) fn mark_closed(&self) {
        self.state.store(CLOSED, Ordering::Release);
    }

    /// Refuses all work from here on, since the store's name leads nowhere, or to another file than the one that this
    /// handle reads. Returns the reason. A handle that is closed stays closed.
    #[cold]
    pub(crate) fn lose_name(&self, is_there: bool) -> Error {
        let lost = if is_there { REPLACED } else { UNNAMED };
        let (acquire, release) = (Ordering::Acquire, Ordering::AcqRel);
        let now = self.state.compare_exchange(OPEN, lost, release, acquire);
        self.stopped(now.map_or_else(|now| now, |_| lost))
    }

    /// Returns the error of a handle whose store has lost its name.
    pub(crate) fn lost_name(&self) -> Option<Error> {
        let state = self.state.load(Ordering::Acquire);
        matches!(state, UNNAMED | REPLACED).then(|| self.stopped(state))
    }

    #[cold]
    fn stopped(&self, state: u8) -> Error {
        let path = self.place.to_path_buf();
        match state {
            REPLACED => Error::Replaced { path },
            UNNAMED => Error::Moved { path },
            _ => Error::Closed,
        }
    }

    /// Returns whether this process opened the handle, rather than a process that it was forked from.
    pub(crate) fn is_own(&self) -> bool {
        self.process.is_current()
    }

    /// Returns the same, but checks the process number as well, for what must never happen in a forked copy.
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
        match self.state.load(Ordering::Acquire) {
            OPEN => {}
            state => return Err(self.stopped(state)),
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
                action: "recover what another handle lost in a failed sync of",
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

    /// Refuses the same, and also writing through a handle that only reads or was forked.
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

    /// Passes an outcome on, and poisons the handle if the state of the disk is unknown after it. Lack of room does not
    /// poison it, since it is reported before any promise.
    pub(crate) fn poison_on_failure<T>(&self, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(
                error @ (Error::Io { .. }
                | Error::OutOfMemory { .. }
                | Error::Format { .. }
                | Error::Log { .. }
                | Error::SharedMemory { .. }
                | Error::Moved { .. }),
            ) => Err(self.poison(error)),
            Err(error) => Err(error),
            Ok(done) => Ok(done),
        }
    }

    /// Ends all work on this handle; reopening recovers what is durable. The other handles continue: they repair what
    /// this one left half done as after a crash, and write again what a failed sync left in doubt.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let lost = LogError::Lost { offset: 0 };
        if let Error::Log { source, .. } = &error
            && std::mem::discriminant(source) == std::mem::discriminant(&lost)
        {
            // What the buffer refers to no longer exists anywhere else.
            self.shared.set_poisoned(LOST);
        }
        if matches!(error, Error::SharedMemory { .. }) {
            self.shared.set_poisoned(DAMAGED);
        }
        let cause = Arc::clone(self.poison.get_or_init(|| Arc::new(error)));
        Error::Poisoned { cause }
    }

    /// Returns whether this handle cannot continue after a failure of its own.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poison.get().is_some()
    }

    /// Checks that store and log still have their names: what goes into a file without a name is lost when the last
    /// handle closes it. Ends all work on this handle if they do not.
    pub(crate) fn check_names(&self, log: Option<&LogFile>) -> Result<()> {
        let named = self.place.expect(&self.place, self.locks.id());
        let named = named.and_then(|()| match log.and_then(|log| Some((log, log.id?))) {
            Some((log, id)) => match self.place.expect(&log.path, id) {
                // Another handle has brought the log into the pages meanwhile, and removed it.
                Err(Error::Moved { .. }) if self.shared.checkpointed() > log.generation => Ok(()),
                outcome => outcome,
            },
            None => Ok(()),
        });
        self.poison_on_failure(named)
    }

    /// Ends the work of all handles on memory that cannot be trusted.
    #[cold]
    pub(crate) fn poison_shared(&self, wrong: ShmCorruption) -> Error {
        self.poison(wrong.at(&self.place))
    }

    /// Checks a handle's uncommitted keys as the table has them: a key missing there would be lost with the log.
    pub(crate) fn expect_digest(
        &self,
        handle: u64,
        expected: Digest,
        found: Digest,
    ) -> Result<(), Error> {
        if found == expected {
            return Ok(());
        }
        Err(self.poison_shared(ShmCorruption {
            word: "table",
            expected: format!("{} keys of handle {handle}, as they were", expected.keys),
            got: found.keys,
        }))
    }
}

impl ShmCorruption {
    pub(crate) fn at(self, store: &std::path::Path) -> Error {
        Error::SharedMemory {
            path: store.to_owned(),
            word: self.word,
            expected: self.expected,
            got: self.got,
        }
    }
}
