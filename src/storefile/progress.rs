//! Progress of a long call.

use std::ops::{ControlFlow, Range};

use crate::error::{Error, Result};
use crate::page::PAGE_BYTES;
use crate::storefile::page_scan::READ_PAGES;

/// The progress of a long call.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done so far. Copied and checked bytes count alike.
    pub done: u64,
    /// Bytes to do in total.
    pub total: u64,
}

/// Reports the progress of a call.
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

    /// Records that `done` bytes are done in total. What is done stays done, though a copy may come to be shorter than it was.
    pub(crate) fn at(&mut self, done: u64) -> Result<()> {
        self.progress.done = done.max(self.progress.done).min(self.progress.total);
        match (self.watch)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }

    /// Records one more page as done. Reports it from time to time.
    pub(crate) fn page(&mut self) -> Result<()> {
        let done = self.progress.done + PAGE_BYTES as u64;
        if (done / PAGE_BYTES as u64).is_multiple_of(READ_PAGES) {
            return self.at(done);
        }
        self.progress.done = done;
        Ok(())
    }

    /// Records pages as done, one by one.
    pub(crate) fn pages(&mut self, mut numbers: Range<u64>) -> Result<()> {
        numbers.try_for_each(|_| self.page())
    }
}
