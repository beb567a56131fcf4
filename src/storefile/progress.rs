//! Progress of a long call.

use std::ops::{ControlFlow, Range};

use crate::error::{Error, Result};
use crate::page::{PAGE_BYTES, PageState};
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

/// What a check of all pages passes on. An error ends it.
pub(crate) type Visit<'a> = dyn FnMut(Visited) -> Result<()> + 'a;

/// What a check of all pages has come to.
pub(crate) enum Visited {
    /// Pages of a layer, counted from 0 in it, and what each of them is.
    Pages(u32, Range<u64>, PageState),
    /// So many pages that were read once more, to compare runs.
    Again(u64),
}

impl Visited {
    /// Returns how many pages were read.
    pub(crate) fn pages(&self) -> u64 {
        match self {
            Self::Pages(_, pages, _) => pages.end - pages.start,
            Self::Again(pages) => *pages,
        }
    }
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
        self.more(1)
    }

    /// Records so many more pages as done. Reports them from time to time.
    pub(crate) fn more(&mut self, pages: u64) -> Result<()> {
        let before = self.progress.done / PAGE_BYTES as u64;
        let now = before.saturating_add(pages);
        let done = now.saturating_mul(PAGE_BYTES as u64);
        if before / READ_PAGES != now / READ_PAGES {
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
