//! What all operations on an open store share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};

use arc_swap::ArcSwap;

use super::Options;
use super::keys::KeySource;
use crate::buffer::{FIRST_TRANSACTION, Table};
use crate::error::{Error, Result};
use crate::file::layout::SUPERBLOCK_OFFSETS;
use crate::file::pages::WriteWindow;
use crate::file::superblock::Commits;
use crate::file::{FormatError, Header, LayerPages, Superblock};
use crate::hash::KeyHasher;
use crate::log::{Cut, LogFile, LogWriter};
use crate::page::Kind;
use crate::sys::storage::{StorageFile, write_all_at};
use crate::sys::{FileLock, lock};

/// What a reader looks at: in this order, the order in which keys flow.
///
/// A view never changes; rotation and the end of a checkpoint put another in its place. Who holds
/// an old one sees all that was there when it began: a table is never emptied or used again, and
/// pages only gain keys.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Table>,
    pub(crate) frozen: Option<Arc<Table>>,
    pub(crate) layers: Vec<Arc<LayerPages>>,
}

/// What only the holder of the writer lock touches.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The active log, made at the first write.
    pub(crate) log: Option<LogWriter>,
    /// Whether this handle has announced itself in that log.
    pub(crate) announced: bool,
    /// The generation of the active log.
    pub(crate) generation: u64,
    /// This handle's number in the logs.
    pub(crate) handle: u64,
    pub(crate) commit_sequence: u64,
    /// The last commit of each writer.
    pub(crate) commits: Commits,
    /// State of the keys claimed now, in a transactional store.
    pub(crate) transaction: u16,
    /// Keys claimed since the last commit.
    pub(crate) uncommitted: u64,
    /// Keys in the active table.
    pub(crate) active_keys: u64,
    /// Keys that the active table takes before it is rotated so as to fill a layer exactly.
    pub(crate) room: u64,
    /// Bytes of an active log that was read and is not written to.
    pub(crate) unwritten_log: u64,
    pub(crate) closed: bool,
}

/// A closed log, with the keys that its checkpoint moves into the pages.
#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    pub(crate) log: Arc<LogFile>,
    pub(crate) keys: KeySource,
    /// How many those are, at most.
    pub(crate) count: u64,
    pub(crate) cut: Cut,
    pub(crate) commit_sequence: u64,
    pub(crate) commits: Commits,
    /// The sequence of the first intent of its checkpoint.
    pub(crate) first_intent: u64,
    /// Pages that may be torn because a checkpoint of this log was interrupted.
    pub(crate) torn: std::ops::Range<u64>,
}

/// What a checkpoint changes.
#[derive(Debug)]
pub(crate) struct CheckpointState {
    /// The newest durable superblock.
    pub(crate) superblock: Superblock,
    pub(crate) frozen: Option<Frozen>,
    pub(crate) running: bool,
}

/// An open store. Locks are taken in the order writer, checkpoint.
#[derive(Debug)]
pub(crate) struct Engine {
    /// For the checkpoint's thread, which must keep the engine alive.
    pub(crate) itself: Weak<Engine>,
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    pub(crate) header: Header,
    pub(crate) hasher: KeyHasher,
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) read_only: bool,
    /// Most keys the store may hold.
    pub(crate) key_limit: u64,
    pub(crate) view: ArcSwap<View>,
    pub(crate) window: WriteWindow,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) checkpoint: Mutex<CheckpointState>,
    pub(crate) checkpoint_done: Condvar,
    /// Keys in pages and frozen buffer.
    pub(crate) settled_keys: AtomicU64,
    poison: OnceLock<Arc<Error>>,
    pub(crate) closed: AtomicBool,
    pub(crate) file_lock: Mutex<Option<FileLock>>,
}

/// All that opening has found out.
pub(crate) struct Parts {
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    pub(crate) header: Header,
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) read_only: bool,
    pub(crate) file_lock: Option<FileLock>,
    pub(crate) superblock: Superblock,
    pub(crate) view: View,
    pub(crate) writer: Writer,
    pub(crate) frozen: Option<Frozen>,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let key_limit = match parts.header.growth() {
            Some(growth) => growth.limit(),
            None => parts.header.capacity,
        };
        let frozen_keys = parts.frozen.as_ref().map_or(0, |frozen| frozen.count);
        let window = WriteWindow::default();
        if let Some(frozen) = &parts.frozen {
            window.set_torn(frozen.torn.clone());
        }
        Arc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            hasher: KeyHasher::new(parts.header.hash, &parts.header.seed),
            path: parts.path,
            options: parts.options,
            header: parts.header,
            file: parts.file,
            read_only: parts.read_only,
            key_limit,
            view: ArcSwap::from_pointee(parts.view),
            window,
            writer: Mutex::new(parts.writer),
            settled_keys: AtomicU64::new(parts.superblock.keys().saturating_add(frozen_keys)),
            checkpoint: Mutex::new(CheckpointState {
                superblock: parts.superblock,
                frozen: parts.frozen,
                running: false,
            }),
            checkpoint_done: Condvar::new(),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            file_lock: Mutex::new(parts.file_lock),
        })
    }

    /// Refuses work on a closed or poisoned handle.
    pub(crate) fn check_usable(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned {
                cause: Arc::clone(cause),
            }),
            None => Ok(()),
        }
    }

    /// The same, and writing on a read-only one.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.check_usable()
    }

    /// The writer lock.
    pub(crate) fn lock_writer(&self) -> Result<std::sync::MutexGuard<'_, Writer>> {
        let writer = lock(&self.writer);
        if writer.closed {
            return Err(Error::Closed);
        }
        self.check_usable()?;
        Ok(writer)
    }

    /// Passes an outcome on, and poisons the handle if it is one after which nobody can know what
    /// the disk holds. Lack of room is told before any promise, so it is not.
    pub(crate) fn poison_on_failure<T>(&self, outcome: Result<T>) -> Result<T> {
        match outcome {
            Err(error @ (Error::Io { .. } | Error::Format { .. } | Error::Log { .. })) => {
                Err(self.poison(error))
            }
            outcome => outcome,
        }
    }

    /// Ends all work on this handle; reopening recovers what is durable.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let cause = Arc::clone(self.poison.get_or_init(|| Arc::new(error)));
        Error::Poisoned { cause }
    }

    /// Makes a superblock durable.
    pub(crate) fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        write_superblock(&*self.file, &self.path, &self.header, superblock)
    }

    /// Keys that a handle may have uncommitted.
    pub(crate) fn quota(&self) -> u64 {
        if self.header.transactional {
            self.view.load().active.limit() / 2
        } else {
            u64::MAX
        }
    }

    /// An error about the store file's bytes.
    pub(crate) fn format_error(&self, source: FormatError) -> Error {
        Error::Format {
            path: self.path.clone(),
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
        .map_err(|error| Error::io("write the superblock", path, error))?;
    file.sync()
        .map_err(|error| Error::sync("sync the superblock", path, error))
}

impl Writer {
    /// A writer that has written nothing yet.
    pub(crate) fn idle(superblock: &Superblock) -> Self {
        Self {
            log: None,
            announced: false,
            generation: superblock.generation,
            handle: 1,
            commit_sequence: superblock.commit_sequence,
            commits: superblock.commits.clone(),
            transaction: FIRST_TRANSACTION,
            uncommitted: 0,
            active_keys: 0,
            room: u64::MAX,
            unwritten_log: 0,
            closed: false,
        }
    }
}
