//! An open store, and what becomes of it in a forked process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use everseen::{CloseReport, Error, Store};
use pyo3::prelude::*;

use crate::errors::OrRaise;
use crate::opening::Opening;
use crate::warnings;

/// How often this process, or one of its ancestors since the module was loaded, was forked into being.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Runs in the child after each `os.fork`.
#[pyfunction(name = "_forked")]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A store as this process, or one that it was forked from, has opened it.
pub(crate) struct Opened {
    pub(crate) store: Store,
    forks: u64,
}

impl Opened {
    fn of(store: Store) -> Arc<Self> {
        let forks = FORKS.load(Ordering::Relaxed);
        Arc::new(Self { store, forks })
    }

    fn is_inherited(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }
}

/// A handle that opens the store again in a forked process: what its parent opened is the parent's.
pub(crate) struct Session {
    pub(crate) opening: Opening,
    opened: ArcSwap<Opened>,
    closed: AtomicBool,
    /// Held while the store is opened again.
    reopening: Mutex<()>,
}

impl Session {
    pub(crate) fn begin(py: Python<'_>, opening: Opening, is_again: bool) -> PyResult<Self> {
        opening.check_time()?;
        let store = py.detach(|| opening.open()).or_raise(py)?;
        opening.compare(py, &store)?;
        opening.tell_time(py, &store, is_again)?;
        Ok(Self {
            opening,
            opened: ArcSwap::new(Opened::of(store)),
            closed: AtomicBool::new(false),
            reopening: Mutex::new(()),
        })
    }

    /// Returns this process's own handle.
    #[inline]
    pub(crate) fn current(&self, py: Python<'_>) -> PyResult<Guard<Arc<Opened>>> {
        let opened = self.opened.load();
        if !opened.is_inherited() {
            return Ok(opened);
        }
        drop(opened);
        py.detach(|| self.reopen()).or_raise(py)?;
        // A child may end without what Python runs at the end of a program.
        py.import("everseen._open")?.call_method0("_close_at_end")?;
        Ok(self.opened.load())
    }

    /// Calls the store without holding Python up.
    #[inline]
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Store) -> everseen::Result<T> + Send,
    ) -> PyResult<T> {
        let opened = self.current(py)?;
        let store = &opened.store;
        py.detach(|| work(store)).or_raise(py)
    }

    #[cold]
    fn reopen(&self) -> everseen::Result<()> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        if self.opening.exclusive {
            // The parent has the store to itself.
            return Err(Error::Forked);
        }
        let _one = self
            .reopening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_closed() {
            return Err(Error::Closed);
        }
        if self.opened.load().is_inherited() {
            // The library leaves the parent's locks alone when this drops what is the parent's.
            self.opened.store(Opened::of(self.opening.reopen()?));
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes this process's own handle; there is nothing to close where it has none.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<CloseReport> {
        self.closed.store(true, Ordering::Release);
        let opened = self.opened.load();
        if opened.is_inherited() {
            return Ok(CloseReport::default());
        }
        let store = &opened.store;
        py.detach(|| store.close()).or_raise(py)
    }

    /// Commits what this process's own handle has not committed, under the tag that its writer has.
    pub(crate) fn commit_rest(&self, py: Python<'_>) -> PyResult<()> {
        let opened = self.opened.load();
        if self.is_closed() || opened.is_inherited() {
            return Ok(());
        }
        let (store, writer) = (&opened.store, &self.opening.writer);
        let commit = || {
            if store.uncommitted()?.keys > 0 {
                // A plain commit would replace the tag by an empty one.
                let last = store.last_commit(writer)?;
                store.commit_with(&last.map(|commit| commit.tag).unwrap_or_default())?;
            }
            Ok(())
        };
        py.detach(commit).or_raise(py)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let opened = self.opened.load();
        if self.is_closed() || opened.is_inherited() {
            return;
        }
        // It may write all that came, and wait for other handles. Without an interpreter, no one is held up.
        let store = &opened.store;
        let closed = Python::try_attach(|py| py.detach(|| store.close()));
        let closed = closed.unwrap_or_else(|| store.close());
        if let Ok(report) = closed
            && report != CloseReport::default()
        {
            warnings::of_dropped(&self.opening.path, report);
        }
    }
}
