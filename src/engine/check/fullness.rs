//! How full a store is, by its counts.

use crate::engine::Engine;
use crate::engine::view::{View, ViewCell};
use crate::error::Result;
use crate::shm::handle::Handle;
use crate::storefile::store_file::StoreFile;

/// How full a store is; the result of [`Store::fullness`](crate::Store::fullness).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fullness {
    /// Keys the store holds: in pages and in the write buffer, uncommitted ones included. In a counting store, inserts
    /// minus removes: a key that was inserted twice counts twice.
    pub keys: u64,
    /// The most keys the store takes. After that, inserting is [`Error::Full`](crate::Error::Full), so that the
    /// false-positive rate stays within its bound. The limit is the store's capacity or what it may grow to; for a store
    /// that grows in layers, the point where 64-bit hashes end its growth.
    pub limit: u64,
    /// Bytes of memory that write buffers take now, as in [`Stats`](crate::Stats::buffer_bytes).
    pub buffer_bytes: u64,
}

impl Fullness {
    /// Returns how many more keys the store takes.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.keys)
    }

    /// Returns keys over limit: 0 when empty, 1 when full.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.keys as f64 / self.limit as f64
    }
}

/// Counts the keys of an open store.
#[derive(Clone, Copy)]
pub(crate) struct KeyCounter<'a> {
    handle: &'a Handle,
    file: &'a StoreFile,
    views: &'a ViewCell,
}

impl<'a> KeyCounter<'a> {
    #[inline]
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            handle: &engine.handle,
            file: &engine.file,
            views: &engine.views,
        }
    }

    #[inline]
    pub(crate) fn fullness(&self) -> Result<Fullness> {
        self.handle.check_usable()?;
        Ok(self.fullness_of(&*self.views.current()?))
    }

    pub(crate) fn fullness_of(&self, view: &View) -> Fullness {
        Fullness {
            keys: view.keys(),
            limit: self.file.key_limit,
            buffer_bytes: view.buffer_bytes(),
        }
    }
}
