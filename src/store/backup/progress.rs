//! How far a long call is.

use std::ops::ControlFlow;

use crate::error::{Error, Result};
use crate::page::PAGE_BYTES;
use crate::store::storefile::page_scan::READ_PAGES;

/// How far a long call is.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done so far. Those that are copied and those that are checked count alike.
    pub done: u64,
    /// Bytes to be done in all.
    pub total: u64,
}

/// Reports how far a call is.
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

    /// One more page is done. Reported now and then.
    pub(crate) fn page(&mut self) -> Result<()> {
        let done = self.progress.done + PAGE_BYTES as u64;
        if (done / PAGE_BYTES as u64).is_multiple_of(READ_PAGES) {
            return self.at(done);
        }
        self.progress.done = done;
        Ok(())
    }
}
