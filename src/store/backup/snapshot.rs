//! A consistent copy of a store that others go on writing to.
//!
//! What was acknowledged goes into the pages by a checkpoint; then the checkpoint's lock is held while the file is
//! copied. So no page changes meanwhile, and inserts go on into buffer and log until they need a checkpoint themselves.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, MutexGuard};

use crate::error::{Error, Result};
use crate::file::copy::{CopyMark, Moment, digest_of, superblocks_of};
use crate::file::layout::COPY_MARK_OFFSET;
use crate::file::layout::{INTENT_OFFSETS, PAGES_OFFSET, SUPERBLOCK_OFFSETS};
use crate::file::{Header, Superblock};
use crate::log::file::RECORDS_OFFSET;
use crate::log::{LogReader, RecordKind, log_path};
use crate::page::PAGE_BYTES;
use crate::store::api::store::Store;
use crate::store::engine::Engine;
use crate::store::storefile::atomic_file::{COPY, Draft};
use crate::store::storefile::meta::{Identity, read_identity};
use crate::store::storefile::page_scan::{self as walk, Pages, numbers};
use crate::store::write::Writer;
use crate::store::write::guard::WriteGuard;
use crate::sys::storage::{StorageFile, read_exact_at, write_all_at};
use crate::sys::{RangeLock, lock};

/// How often a store is looked at again because a process died at a checkpoint meanwhile.
const ROUNDS: usize = 100;

/// How far a long call is.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done so far. Those that are copied and those that are checked count alike.
    pub done: u64,
    /// Bytes to be done in all.
    pub total: u64,
}

/// What a [snapshot](Store::snapshot) is.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The generation that it shows: its pages hold all logs below.
    pub generation: u64,
    /// Keys in it, as [`Stats`](crate::Stats) counts them.
    pub keys: u64,
    /// Its pages, each of which was read and checked.
    pub pages: u64,
    /// Its length in bytes. Holes of the store are holes in it, where the file system has them.
    pub bytes: u64,
    /// Whether the file system shares its blocks with the store's until either changes.
    pub shared: bool,
}

impl Store {
    /// Makes a copy of the store at `dest`, while other threads and processes go on using it.
    ///
    /// Everything acknowledged before the call, in any process, is in it; of a transactional store everything
    /// committed, and nothing else. What comes while it is made may be in it or not. The copy is one file, a store
    /// as after a clean close, of the same id, with every writer's last commit and tag. Each of its pages has been
    /// read and checked, and it is durable, when it gets its name.
    ///
    /// Where the file system shares blocks between files (Btrfs, XFS, …), the copy takes no room and no time to speak of.
    /// Elsewhere checkpoints wait until it is copied: who inserts goes on until the buffer is full, and then waits for up to
    /// its [timeout](crate::Options::timeout).
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint); [`Error::AlreadyExists`](crate::Error::AlreadyExists) if there is
    /// anything at `dest`, or a log that would be taken for the copy's own; a damaged page of the store; a full or failing
    /// disk. After an error there is nothing at `dest`, and the store can be used on.
    pub fn snapshot(&self, dest: impl AsRef<Path>) -> Result<SnapshotReport> {
        self.snapshot_watched(dest, |_| ControlFlow::Continue(()))
    }

    /// As [`snapshot`](Self::snapshot), and tells from time to time how far it is. `watch` may end it early.
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot); [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn snapshot_watched(
        &self,
        dest: impl AsRef<Path>,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<SnapshotReport> {
        self.engine.snapshot(dest.as_ref(), &mut watch)
    }
}

/// Tells how far a call is.
pub(crate) struct Watched<'a> {
    watch: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    pub(crate) progress: Progress,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(watch: &'a mut dyn FnMut(Progress) -> ControlFlow<()>, total: u64) -> Self {
        Self {
            watch,
            progress: Progress { done: 0, total },
        }
    }

    /// So many bytes are done in all.
    pub(crate) fn at(&mut self, done: u64) -> Result<()> {
        self.progress.done = done.min(self.progress.total);
        match (self.watch)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }

    /// One more page is done. Told now and then.
    pub(crate) fn page(&mut self) -> Result<()> {
        let done = self.progress.done + PAGE_BYTES as u64;
        if (done / PAGE_BYTES as u64).is_multiple_of(walk::PIECE) {
            return self.at(done);
        }
        self.progress.done = done;
        Ok(())
    }
}

/// A store whose pages don't change while this is held.
pub(crate) struct Still<'a> {
    pub(crate) identity: Identity,
    _one_thread: MutexGuard<'a, ()>,
    _one_process: Option<RangeLock>,
}

impl WriteGuard<'_> {
    /// Whether a key or a commit is in the active log. Told by the log, which a death leaves as it is.
    fn has_news(&self) -> Result<bool> {
        let active = &self.view.active;
        if !active.has_log() {
            return Ok(false);
        }
        let log = Arc::clone(self.writer.logs.of(active)?);
        let mut reader = LogReader::resume(&log, RECORDS_OFFSET, active.log_end())?;
        while let Some(record) = reader.next()? {
            if record.kind != RecordKind::Open {
                return Ok(true);
            }
        }
        Ok(reader.end() < active.log_end().end)
    }
}

impl Engine {
    /// Brings everything acknowledged into the pages, and keeps them as they are.
    pub(crate) fn hold_still(&self) -> Result<Still<'_>> {
        for _ in 0..ROUNDS {
            let mut writing = Writer::of(self).lock()?;
            if writing.has_news()? {
                writing.seal_active(false)?;
            }
            drop(writing);
            self.settle_all(self.options.timeout)?;
            let one_thread = lock(&self.checkpoints.running);
            let one_process = self.hold_checkpoints_off()?;
            let identity = read_identity(&*self.file.raw, &self.file.place)?;
            let generation = identity.superblock.generation;
            let intent = identity.intent.as_ref();
            // Another one may have begun since, and its process died at it.
            if intent.is_none_or(|intent| intent.generation != generation) {
                return Ok(Still {
                    identity,
                    _one_thread: one_thread,
                    _one_process: one_process,
                });
            }
        }
        Err(Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "a checkpoint that comes to its end",
            process: None,
        })
    }

    fn snapshot(
        &self,
        dest: &Path,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<SnapshotReport> {
        self.handle.check_writable()?;
        let draft = Draft::begin(&self.options, dest, COPY, self.file.owner()?)?;
        let still = self.hold_still()?;
        let superblock = still.identity.superblock.clone();
        self.refuse_logs(&draft.place, superblock.generation)?;
        let length = superblock.end_offset().max(PAGES_OFFSET);
        walk::check_sections(&*self.file.raw, &self.file.place, &superblock.sections)?;
        let pages = walk::count(&superblock.layers);
        let mut watched = Watched::new(watch, length.saturating_add(pages * PAGE_BYTES as u64));
        let mut ended = Ok(());
        let mut each = |done| {
            ended = watched.at(done);
            match ended {
                Ok(()) => Ok(()),
                Err(_) => Err(io::ErrorKind::Other.into()),
            }
        };
        let copied = draft.file.copy_from(&*self.file.raw, length, &mut each);
        ended?;
        let shared = copied.map_err(|error| Error::io("copy to", dest, error))?;
        drop(still);
        watched.at(length)?;
        let digest = self.check_copy(&*draft.file, dest, &superblock, &mut watched)?;
        walk::check_sections(&*draft.file, dest, &superblock.sections)?;
        walk::clear_unnamed(&*draft.file, dest, &superblock)?;
        let front = front(&self.file.header, &superblock, digest);
        write_all_at(&*draft.file, &front, INTENT_OFFSETS[0])
            .map_err(|error| draft.failed(error))?;
        draft.publish()?;
        Ok(SnapshotReport {
            generation: superblock.generation,
            keys: superblock.keys(),
            pages,
            bytes: length,
            shared,
        })
    }

    /// Refuses a name beside which there is a log that an opener of the copy would take for its own.
    fn refuse_logs(&self, dest: &Path, generation: u64) -> Result<()> {
        for number in generation.saturating_sub(1)..=generation + 1 {
            let path = log_path(dest, number);
            let there = self.options.storage.exists(&path);
            if there.map_err(|error| Error::io("look for", &path, error))? {
                return Err(Error::AlreadyExists { path });
            }
        }
        Ok(())
    }

    /// Checks header and pages of the copy, and answers the digest of the pages.
    fn check_copy(
        &self,
        file: &dyn StorageFile,
        path: &Path,
        superblock: &Superblock,
        watched: &mut Watched<'_>,
    ) -> Result<u64> {
        let mut page = [0; PAGE_BYTES];
        read_exact_at(file, &mut page, 0).map_err(|error| Error::io("read", path, error))?;
        let length = superblock.end_offset().max(PAGES_OFFSET);
        if Header::decode(&page, length).as_ref() != Ok(&self.file.header) {
            return Err(Error::Io {
                action: "find the store's header in",
                path: path.to_owned(),
                source: io::ErrorKind::InvalidData.into(),
            });
        }
        let cell = self.file.header.kind.cell();
        let mut pages = Pages::new(file, path);
        let mut digest = 0_u64;
        for (index, layer, number) in numbers(&superblock.layers) {
            let bytes = pages.page(number, layer.end_page())?;
            if let Err(error) = walk::check(path, cell, index, layer, number, bytes) {
                // The store's own, more likely.
                let mut own = Pages::new(&*self.file.raw, &self.file.place);
                let bytes = own.page(number, number + 1)?;
                walk::check(&self.file.place, cell, index, layer, number, bytes)?;
                return Err(error);
            }
            digest = digest.wrapping_add(digest_of(number, bytes));
            watched.page()?;
        }
        Ok(digest)
    }
}

/// What lies in a copy between the header and the pages: no intent, its mark, its superblocks.
pub(crate) fn front(header: &Header, store: &Superblock, digest: u64) -> Vec<u8> {
    let from = INTENT_OFFSETS[0];
    let mut bytes = vec![0; (PAGES_OFFSET - from) as usize];
    let mut put = |offset: u64, part: &[u8]| {
        let at = (offset - from) as usize;
        bytes[at..at + part.len()].copy_from_slice(part);
    };
    let both = superblocks_of(store);
    for superblock in &both {
        let offset = SUPERBLOCK_OFFSETS[superblock.slot()];
        put(offset, &superblock.encode(header));
    }
    put(
        COPY_MARK_OFFSET,
        &mark_of(header, &both[1], digest).encode(),
    );
    bytes
}

/// The mark of a copy whose newest superblock this is.
pub(crate) fn mark_of(header: &Header, newest: &Superblock, digest: u64) -> CopyMark {
    CopyMark {
        store_id: header.store_id,
        moment: Moment {
            generation: newest.generation,
            digest,
        },
        sequence: newest.sequence,
        next: None,
    }
}
