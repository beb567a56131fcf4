//! What a failed sync leaves in doubt, and making it good.
//!
//! The system tells each open file once that its data could not be written, takes the pages for
//! clean all the same, and lets the next sync succeed without them. So whoever syncs after a
//! failure, through whichever handle, first takes up what the system has still to tell of it, and
//! then writes once more what the last good sync doesn't cover.

use std::io;

use crate::error::Result;
use crate::sys::storage::StorageFile;
use crate::sys::sync::{AtomicU64, Ordering};

/// The failed syncs of one file, in words that processes may share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FsyncFailures<'a> {
    failures: &'a AtomicU64,
    /// How many of them have been made good.
    mended: &'a AtomicU64,
}

/// How many failures a handle's own open file has told of.
#[derive(Debug, Default)]
pub(crate) struct SeenFailures(AtomicU64);

impl<'a> FsyncFailures<'a> {
    pub(crate) fn new(failures: &'a AtomicU64, mended: &'a AtomicU64) -> Self {
        Self { failures, mended }
    }

    /// Whether a sync failed and has not been made good.
    pub(crate) fn is_open(self) -> bool {
        // More made good than failed is memory that was damaged: it is not believed either.
        self.mended.load(Ordering::Acquire) != self.failures.load(Ordering::Acquire)
    }

    /// Keeps in mind that a sync failed.
    pub(crate) fn raise(self) {
        self.failures.fetch_add(1, Ordering::AcqRel);
    }

    /// Syncs the file. When it returns, what `write_again` writes is durable in spite of all
    /// failures before.
    ///
    /// `failed` makes an error of what the system says.
    pub(crate) fn sync(
        self,
        file: &dyn StorageFile,
        told: &SeenFailures,
        write_again: impl Fn() -> Result<()>,
        failed: impl Fn(io::Error) -> crate::Error,
    ) -> Result<()> {
        loop {
            let failures = self.failures.load(Ordering::Acquire);
            if told.0.swap(failures, Ordering::AcqRel) != failures {
                // Of failures that are known.
                let _ = file.sync();
            }
            if self.mended.load(Ordering::Acquire) != failures {
                write_again()?;
            }
            if let Err(error) = file.sync() {
                self.raise();
                return Err(failed(error));
            }
            // Another handle's sync may have failed first, and taken what this one was to write.
            if self.failures.load(Ordering::Acquire) == failures {
                self.mended.fetch_max(failures, Ordering::AcqRel);
                return Ok(());
            }
        }
    }
}
