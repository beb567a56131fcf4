//! Point-in-time copies of a store, and deltas that lead from one to the next.

use std::ops::ControlFlow;
use std::path::Path;

use crate::api::store::Store;
use crate::config::open_options::OpenOptions;
use crate::engine::Engine;
use crate::engine::backup::apply::{self, ApplyReport};
use crate::engine::backup::delta_writer::{self, DeltaReport};
use crate::engine::backup::snapshot::{self, SnapshotReport};
use crate::error::Result;
use crate::storefile::progress::Progress;

impl Store {
    /// Copies the store to `dest` while other threads and processes go on using it.
    ///
    /// The copy holds everything acknowledged before the call, in any process. Of a transactional store it holds
    /// everything committed, and nothing else. What arrives during the call may or may not be in it. The copy is a
    /// single file: a store as after a clean close, with the same id and with every writer's last commit and tag.
    /// Before the copy gets its name, each of its pages has been read and checked, and the copy is durable.
    ///
    /// Where the file system shares blocks between files (Btrfs, XFS, …), the copy takes no extra space and next to no
    /// time. Elsewhere checkpoints wait until the copy is complete: inserts go on until the buffer is full, and then
    /// wait for up to their handle's [timeout](crate::OpenOptions::timeout).
    ///
    /// A handle that [only reads](crate::OpenOptions::open_read_only) copies a store that no handle has open for writing, with
    /// what a killed writer left in its logs, and changes nothing of the store. Writers can't open the store meanwhile.
    ///
    /// # Errors
    /// The same as [`checkpoint`](Self::checkpoint); [`Error::Locked`](crate::Error::Locked) through a handle that only
    /// reads, if another has the store open for writing; [`Error::AlreadyExists`](crate::Error::AlreadyExists) if anything
    /// but an empty file exists at `dest`, or a log that would be taken for the copy's own; a damaged page of the store; a full or
    /// failing disk. After an error there is nothing at `dest`, and the store remains usable.
    pub fn snapshot(&self, dest: impl AsRef<Path>) -> Result<SnapshotReport> {
        self.snapshot_watched(dest, |_| ControlFlow::Continue(()))
    }

    /// Like [`snapshot`](Self::snapshot), but reports its progress to `watch` from time to time. `watch` may end it
    /// early.
    ///
    /// # Errors
    /// The same as [`snapshot`](Self::snapshot); [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn snapshot_watched(
        &self,
        dest: impl AsRef<Path>,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<SnapshotReport> {
        let dest = dest.as_ref();
        self.copy_once(|engine| snapshot::snapshot(engine, dest, &mut watch))
    }

    /// Writes what has changed since the copy `previous` was taken to a new file `dest`, a delta. [`apply_delta`](crate::apply_delta)
    /// applies the delta to that copy, or to another copy of the same moment, wherever it is.
    ///
    /// `previous` is a [snapshot](Self::snapshot), or one that deltas brought up to date, that was never written to as
    /// a store of its own. It is only read. The call reads the headers of all pages of both files to find those that
    /// differ, and checkpoints wait meanwhile. It checks the pages that go into the delta. The moment of the delta
    /// covers what [`snapshot`](Self::snapshot) promises.
    ///
    /// Of a store of kind fingerprint, all of both files is read, and whole segments, of some 4 MiB each, go into the
    /// delta. Keys spread over all segments, so a delta is small only if fewer keys came and went than there are segments.
    ///
    /// # Errors
    /// The same as [`snapshot`](Self::snapshot); [`Error::Delta`](crate::Error::Delta) if `previous` can't be the base
    /// of a delta; [`Error::KeysInLog`](crate::Error::KeysInLog) through a handle that only reads, if a log has keys.
    pub fn snapshot_since(
        &self,
        dest: impl AsRef<Path>,
        previous: impl AsRef<Path>,
    ) -> Result<DeltaReport> {
        self.snapshot_since_watched(dest, previous, |_| ControlFlow::Continue(()))
    }

    /// Like [`snapshot_since`](Self::snapshot_since), but reports its progress to `watch` from time to time. `watch`
    /// may end it early.
    ///
    /// # Errors
    /// The same as [`snapshot_since`](Self::snapshot_since); [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn snapshot_since_watched(
        &self,
        dest: impl AsRef<Path>,
        previous: impl AsRef<Path>,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<DeltaReport> {
        let (dest, previous) = (dest.as_ref(), previous.as_ref());
        self.copy_once(|engine| delta_writer::write_delta(engine, dest, previous, &mut watch))
    }

    fn copy_once<T>(&self, copy: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        match self.engine.handle.writes() {
            true => copy(&self.engine),
            false => self.read_once(copy),
        }
    }
}

/// Applies a [delta](crate::Store::snapshot_since) to a copy. The copy then equals, byte for byte, a
/// [snapshot](crate::Store::snapshot) taken at the moment of the delta. A copy that is already there is left
/// unchanged.
///
/// The call first checks the whole delta and what it will make of the copy. It trusts the copy's other pages;
/// [`Store::verify`](crate::Store::verify) reads them. If the call is interrupted after that check (a kill, a power
/// cut, a full disk), opening the copy fails with [`FormatError::HalfApplied`](crate::FormatError::HalfApplied) until the same delta has been
/// applied again, which may be repeated as often as needed. No handle may have the copy open: writers are kept out,
/// but readers are not noticed and may get errors. If the copy becomes shorter, readers are kept out as well.
///
/// `watch` learns the progress from time to time, and may end the call while the delta is checked, with
/// [`Error::Cancelled`](crate::Error::Cancelled); after that it is not called any more. Of the options, the timeout
/// applies.
///
/// # Errors
/// [`Error::Delta`](crate::Error::Delta), with the path of the file at fault;
/// [`Error::Locked`](crate::Error::Locked) if another handle has the copy open for writing, or for reading if it becomes
/// shorter; a full or failing disk.
pub fn apply_delta(
    delta: impl AsRef<Path>,
    copy: impl AsRef<Path>,
    options: &OpenOptions,
    mut watch: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<ApplyReport> {
    apply::apply(options, delta.as_ref(), copy.as_ref(), &mut watch)
}
