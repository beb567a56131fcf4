//! The lock that keeps a store file from being shortened under a map of it.
//!
//! Reading a map beyond the end of its file ends the process. So every view of a store whose file can shrink has a share
//! in this lock, for as long as a look-up can read through it: look-ups of threads that are still under way when their
//! handle is closed, and views that a newer one has replaced.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::shm::locks::{StoreLocks, lock_error};
use crate::sys::{RangeLock, wait_until};

/// A handle's share in the lock. Its clones are in its views; the last one to be dropped gives the share back.
#[derive(Debug, Clone)]
pub(crate) struct MapLease {
    lock: Arc<RangeLock>,
    path: PathBuf,
}

impl MapLease {
    /// Takes a share. The caller is opening the store, holds the open-close lock, and has not mapped anything yet.
    pub(crate) fn take(locks: &StoreLocks) -> Result<Self> {
        Ok(Self {
            lock: Arc::new(locks.tell_mapping()?),
            path: locks.path().to_owned(),
        })
    }

    /// Waits until no view of this handle is left, and then returns the lock that says that no other handle has one,
    /// unless one has. The caller holds the open-close lock, so nobody maps the file until the result is dropped.
    pub(crate) fn become_only(self, patience: Duration) -> Result<Option<RangeLock>> {
        let is_last = || Ok::<_, Infallible>(Arc::strong_count(&self.lock) == 1);
        let Ok(_) = wait_until(patience, is_last);
        let Some(lock) = Arc::into_inner(self.lock) else {
            return Ok(None);
        };
        let alone = lock.upgrade().map_err(lock_error(&self.path))?;
        Ok(alone.then_some(lock))
    }
}
