//! Copies of one moment, and what leads from one to the next.

use std::ops::ControlFlow;
use std::path::Path;

use crate::error::Result;
use crate::store::api::store::Store;
use crate::store::backup::apply::{self, ApplyReport};
use crate::store::backup::delta_writer::{self, DeltaReport};
use crate::store::backup::progress::Progress;
use crate::store::backup::snapshot::{self, SnapshotReport};
use crate::store::config::options::Options;

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
        snapshot::snapshot(&self.engine, dest.as_ref(), &mut watch)
    }

    /// Writes what has changed since the copy `previous` was made to a new file `dest`, a delta, which
    /// [`Options::apply`] lays on that copy, or on another one of the same moment, wherever it is.
    ///
    /// `previous` is a [snapshot](Self::snapshot), or one brought up to date by deltas, that was not written to as a
    /// store of its own; it is read alone. The headers of all pages of both are read to find those that differ, and
    /// checkpoints wait meanwhile; the pages that go into the delta are checked. What the store holds at the moment of the
    /// delta is what [`snapshot`](Self::snapshot) promises.
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot); [`Error::Delta`](crate::Error::Delta) if `previous` can't be the base of one.
    pub fn snapshot_since(
        &self,
        dest: impl AsRef<Path>,
        previous: impl AsRef<Path>,
    ) -> Result<DeltaReport> {
        self.snapshot_since_watched(dest, previous, |_| ControlFlow::Continue(()))
    }

    /// As [`snapshot_since`](Self::snapshot_since), and tells from time to time how far it is. `watch` may end it early.
    ///
    /// # Errors
    /// As [`snapshot_since`](Self::snapshot_since); [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn snapshot_since_watched(
        &self,
        dest: impl AsRef<Path>,
        previous: impl AsRef<Path>,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<DeltaReport> {
        let (dest, previous) = (dest.as_ref(), previous.as_ref());
        delta_writer::write_delta(&self.engine, dest, previous, &mut watch)
    }
}

impl Options {
    /// Lays a [delta](crate::Store::snapshot_since) on a copy, which is then what a
    /// [snapshot](crate::Store::snapshot) of the moment of the delta would be, byte for byte. A copy that is there
    /// already is left as it is.
    ///
    /// The whole delta is checked first, and what it will make of the copy; the copy's other pages are taken for what
    /// they were, which [`Store::verify`](crate::Store::verify) reads. If it is interrupted after that (a kill, a power
    /// cut, a full disk), opening the copy is refused with [`FormatError::HalfApplied`] until the same
    /// delta has been applied again, which can be done as often as it takes. Nobody may have the copy open: writers are
    /// kept out, readers are not noticed and may get errors.
    ///
    /// # Errors
    /// [`Error::Delta`](crate::Error::Delta), with the path of what is at fault; [`Error::Locked`](crate::Error::Locked)
    /// if somebody has the copy open for writing; a full or failing disk.
    pub fn apply(&self, delta: impl AsRef<Path>, copy: impl AsRef<Path>) -> Result<ApplyReport> {
        self.apply_watched(delta, copy, |_| ControlFlow::Continue(()))
    }

    /// As [`apply`](Self::apply), and tells from time to time how far it is. `watch` may end it while the delta
    /// is checked; from then on it is asked no more.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn apply_watched(
        &self,
        delta: impl AsRef<Path>,
        copy: impl AsRef<Path>,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<ApplyReport> {
        apply::apply(self, delta.as_ref(), copy.as_ref(), &mut watch)
    }
}
