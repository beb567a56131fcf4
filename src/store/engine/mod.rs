//! What all operations on an open store share.

pub(crate) mod recovery_report;
pub(crate) mod refresh;
pub(crate) mod shm_checks;

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::file::layout::SUPERBLOCK_OFFSETS;
use crate::file::{FormatError, Header, LayerPages, SectionKind, Superblock};
use crate::hash::KeyHasher;
use crate::log::{LogEnd, LogError, LogFile};
use crate::page::Kind;
use crate::store::check::verify::Damage;
use crate::store::config::options::Options;
use crate::store::coordination::fsync_failures::Told;
use crate::store::coordination::locks::{Presence, Seat, StoreLocks};
use crate::store::coordination::place::Place;
use crate::store::coordination::shm::{Coordination, DAMAGED, LOST};
use crate::store::engine::recovery_report::RecoveryReport;
use crate::store::generation::Generation;
use crate::store::generation::sampling::Sampling;
use crate::store::prefetch::residency::Cold;
use crate::store::storefile::meta::read_identity;
use crate::store::view::section_set::KeptAll;
use crate::store::write::claims::Claims;
use crate::sys::storage::{Owner, StorageFile, write_all_at};
use crate::sys::{LockFile, LockWaits, Process, RangeLock};

/// What a reader looks at: in this order, the order in which keys flow.
///
/// A view never changes; rotation and the end of a checkpoint put another in its place. Who holds
/// an old one sees all that was there when it began: a buffer is never emptied or used again, and
/// pages only gain keys.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Generation>,
    pub(crate) frozen: Option<Arc<Generation>>,
    pub(crate) layers: Vec<Arc<LayerPages>>,
    /// Its sections.
    pub(crate) kept: KeptAll,
    /// The newest superblock when the view was made.
    pub(crate) superblock: Superblock,
}

impl View {
    /// Keys in frozen buffer and pages. Between its superblock and its end a checkpoint's keys are
    /// in both, and whoever died there leaves them so.
    pub(crate) fn settled_keys(&self) -> u64 {
        let frozen = self.frozen.as_ref();
        let frozen = frozen.filter(|frozen| self.superblock.generation <= frozen.number());
        let frozen = frozen.map_or(0, |frozen| frozen.buffer.keys());
        self.superblock.keys().saturating_add(frozen)
    }
}

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

/// What this handle keeps from one use of the writer lock to the next.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// The generation in whose log this handle has announced itself.
    pub(crate) announced: u64,
    /// Others have joined, so that the writer lock is the file's.
    pub(crate) revoked: bool,
    pub(crate) scratch: Vec<u8>,
    /// While the writer lock is held: where the active log ends.
    pub(crate) end: LogEnd,
    /// Of the last batch, for its memory.
    pub(crate) claims: Option<Box<Claims>>,
    /// What this handle's writer needs in a superblock for its last commit.
    pub(crate) writer_bytes: Option<u64>,
    /// What all writers needed after a commit of this handle: its sequence, and how many bytes.
    pub(crate) all_bytes: Option<(u64, u64)>,
    /// The handle is closed, or a close that failed for want of room has given up what was
    /// uncommitted: nothing is left but to close it.
    pub(crate) closing: bool,
    pub(crate) closed: bool,
}

/// The locks of a handle that shares the store.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) presence: Presence,
    pub(crate) seat: Seat,
}

/// An open store. Locks are taken in the order gate, writer, checkpoint, renewal.
#[derive(Debug)]
pub(crate) struct Engine {
    /// For the checkpoint's thread, which must keep the engine alive.
    pub(crate) itself: Weak<Engine>,
    pub(crate) place: Place,
    pub(crate) locks: StoreLocks,
    pub(crate) options: Options,
    pub(crate) header: Header,
    pub(crate) hasher: KeyHasher,
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) access: Access,
    /// This handle's number in the logs, and its place among the others.
    pub(crate) handle: u64,
    pub(crate) seat: usize,
    /// Most keys the store may hold.
    pub(crate) key_limit: u64,
    pub(crate) shared: Coordination,
    pub(crate) view: ArcSwap<View>,
    /// Held by the one thread that renews the view; in it, a generation that this handle has just
    /// made.
    pub(crate) renewal: Mutex<Option<Arc<Generation>>>,
    pub(crate) writer: Mutex<Local>,
    /// What excludes other processes' writers.
    pub(crate) writer_lock: Option<LockFile>,
    /// Whether this handle made the shared memory, and does without that lock while it is alone there.
    pub(crate) biased: bool,
    pub(crate) writer_waits: LockWaits,
    /// What excludes this process's other checkpoints; the store file's lock excludes those of
    /// other processes.
    pub(crate) checkpoint: Mutex<()>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Failed syncs of the store file that this handle has been told of.
    told: Told,
    /// Damaged pages that checkpoints of this handle have written anew.
    pub(crate) repaired: Mutex<Vec<Damage>>,
    pub(crate) recovery: RecoveryReport,
    poison: OnceLock<Arc<Error>>,
    pub(crate) closed: AtomicBool,
    /// Whether the last batch brought mostly new keys: a guess at the next one.
    pub(crate) mostly_new: AtomicBool,
    /// Which keys are sampled, if any.
    pub(crate) sampling: Option<Sampling>,
    /// Lost keys that this handle has noted.
    pub(crate) noted: Mutex<HashSet<u64>>,
    pub(crate) cold: Cold,
    /// Of a handle that has the store alone: its next buffer, made ahead.
    pub(crate) spare: Mutex<Option<Buffer>>,
    pub(crate) held: Mutex<Option<Held>>,
    /// Of a handle that only reads: tells that it does.
    pub(crate) reading: Mutex<Option<RangeLock>>,
    process: Process,
}

/// All that opening has found out.
pub(crate) struct Parts {
    pub(crate) place: Place,
    pub(crate) locks: StoreLocks,
    pub(crate) reading: Option<RangeLock>,
    pub(crate) options: Options,
    pub(crate) header: Header,
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) access: Access,
    pub(crate) handle: u64,
    pub(crate) shared: Coordination,
    pub(crate) view: View,
    pub(crate) writer_lock: Option<LockFile>,
    pub(crate) biased: bool,
    pub(crate) held: Option<Held>,
    pub(crate) recovery: RecoveryReport,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let key_limit = match parts.header.growth() {
            Some(growth) => growth.limit(),
            None => parts.header.capacity,
        };
        let sample = parts.view.superblock.section(SectionKind::Sample);
        let sampling = sample.map(|section| Sampling::of(&parts.header, section));
        Arc::new_cyclic(|itself| Self {
            sampling,
            noted: Mutex::default(),
            itself: Weak::clone(itself),
            hasher: KeyHasher::new(parts.header.hash, &parts.header.seed),
            place: parts.place,
            locks: parts.locks,
            reading: Mutex::new(parts.reading),
            options: parts.options,
            header: parts.header,
            file: parts.file,
            access: parts.access,
            handle: parts.handle,
            seat: parts.held.as_ref().map_or(0, |held| held.seat.index),
            key_limit,
            shared: parts.shared,
            view: ArcSwap::from_pointee(parts.view),
            renewal: Mutex::new(None),
            writer: Mutex::new(Local::default()),
            writer_lock: parts.writer_lock,
            biased: parts.biased,
            writer_waits: LockWaits::default(),
            checkpoint: Mutex::new(()),
            threads: Mutex::new(Vec::new()),
            told: Told::default(),
            repaired: Mutex::new(Vec::new()),
            recovery: parts.recovery,
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            mostly_new: AtomicBool::new(false),
            cold: Cold::default(),
            spare: Mutex::default(),
            held: Mutex::new(parts.held),
            process: Process::current(),
        })
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

    /// The owner and mode of the store file: what is made of a store gets them.
    pub(crate) fn owner(&self) -> Result<Option<Owner>> {
        Ok(self.place.state()?.map(|state| state.owner))
    }

    /// Makes a superblock durable.
    pub(crate) fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        let outcome = write_superblock(&*self.file, &self.place, &self.header, superblock);
        if outcome.is_err() {
            self.shared.doubt().raise();
        }
        outcome
    }

    /// Makes durable what was written to the store file.
    pub(crate) fn sync_file(&self, action: &'static str) -> Result<()> {
        self.file.sync().map_err(|error| {
            self.shared.doubt().raise();
            Error::sync(action, &self.place, error)
        })
    }

    /// Makes the newest superblock durable if a sync of the store file failed, whoever made it.
    /// Pages need no such care: until there is a superblock that tells of a checkpoint, all of it is
    /// done again.
    pub(crate) fn mend_file(&self) -> Result<()> {
        if !self.shared.doubt().is_open() {
            return Ok(());
        }
        self.shared.doubt().sync(
            &*self.file,
            &self.told,
            || {
                let superblock = read_identity(&*self.file, &self.place)?.superblock;
                write_superblock(&*self.file, &self.place, &self.header, &superblock)
            },
            |error| Error::sync("sync the store", &self.place, error),
        )
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

    /// Keys that a handle may have uncommitted.
    pub(crate) fn quota(&self) -> u64 {
        if self.header.transactional {
            self.view.load().active.buffer.limit() / 2
        } else {
            u64::MAX
        }
    }

    /// An error about the store file's bytes.
    pub(crate) fn format_error(&self, source: FormatError) -> Error {
        Error::Format {
            path: self.place.to_path_buf(),
            source,
        }
    }

    pub(crate) fn grows(&self) -> bool {
        self.header.kind == Kind::Scalable
    }
}

/// Makes a superblock durable, with whatever else of the file is not yet.
pub(crate) fn write_superblock(
    file: &dyn StorageFile,
    path: &Path,
    header: &Header,
    superblock: &Superblock,
) -> Result<()> {
    let bytes = superblock.encode(header);
    let offset = SUPERBLOCK_OFFSETS[superblock.slot()];
    write_all_at(file, &bytes, offset)
        .map_err(|error| Error::io("write the superblock of", path, error))?;
    file.sync()
        .map_err(|error| Error::sync("sync the superblock of", path, error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Error, Options};

    /// A commit looks for its log when it has synced it, and others have gone on by then.
    #[test]
    fn a_log_that_another_handle_has_settled_is_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let options = Options::new().capacity(1000).background(false);
        let [one, other] = [(); 2].map(|()| options.open_or_create(&path).unwrap());
        one.insert(b"key").unwrap();
        let log = || {
            Arc::clone(
                one.engine
                    .log_of(&one.engine.view().unwrap().active)
                    .unwrap(),
            )
        };
        let settled = log();
        other.checkpoint().unwrap();
        assert!(!settled.path.exists());
        one.engine.check_names(Some(&settled)).unwrap();
        one.insert(b"another key").unwrap();
        let needed = log();
        std::fs::remove_file(&needed.path).unwrap();
        let missed = one.engine.check_names(Some(&needed)).unwrap_err();
        assert!(matches!(missed, Error::Poisoned { .. }), "{missed:?}");
    }
}
