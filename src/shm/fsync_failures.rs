//! Tracks what a failed sync leaves in doubt, and repairs it.
//!
//! The system reports to each open file only once that its data could not be written. It marks the pages clean anyway,
//! and lets the next sync succeed without them. So the first sync after a failure, through whichever handle, first
//! consumes the errors that the system has still to report, and then writes again what the last successful sync does
//! not cover.

use std::io;

use crate::error::Result;
use crate::sys::storage::StorageFile;
use crate::sys::sync::{AtomicU64, Ordering};

/// The failed syncs of one file, in words that processes may share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FsyncFailures<'a> {
    failures: &'a AtomicU64,
    /// The number of failures that have been repaired.
    mended: &'a AtomicU64,
}

/// The number of failures that the system has reported to a handle's own open file.
#[derive(Debug, Default)]
pub(crate) struct SeenFailures(AtomicU64);

impl<'a> FsyncFailures<'a> {
    pub(crate) fn new(failures: &'a AtomicU64, mended: &'a AtomicU64) -> Self {
        Self { failures, mended }
    }

    /// Returns whether a sync failed and has not been repaired.
    pub(crate) fn is_open(self) -> bool {
        // More repairs than failures means damaged memory, which is not trusted either.
        self.mended.load(Ordering::Acquire) != self.failures.load(Ordering::Acquire)
    }

    /// Records that a sync failed.
    pub(crate) fn raise(self) {
        self.failures.fetch_add(1, Ordering::AcqRel);
    }

    /// Syncs the file. On success, what `write_again` writes is durable in spite of all earlier failures.
    ///
    /// `failed` turns an error of the system into one of this crate.
    pub(crate) fn sync(
        self,
        file: &dyn StorageFile,
        reported: &SeenFailures,
        write_again: impl Fn() -> Result<()>,
        failed: impl Fn(io::Error) -> crate::Error,
    ) -> Result<()> {
        loop {
            let failures = self.failures.load(Ordering::Acquire);
            if reported.0.swap(failures, Ordering::AcqRel) != failures {
                // This reports failures that are known already.
                let _ = file.sync();
            }
            if self.mended.load(Ordering::Acquire) != failures {
                write_again()?;
            }
            if let Err(error) = file.sync() {
                self.raise();
                return Err(failed(error));
            }
            // Another handle's sync may have failed first, and consumed the failure of what this one was to write.
            if self.failures.load(Ordering::Acquire) == failures {
                self.mended.fetch_max(failures, Ordering::AcqRel);
                return Ok(());
            }
        }
    }
}
