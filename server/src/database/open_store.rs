//! A store that is open, as all connections share it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everseen::Store;

use super::design::Design;
use super::group_commit::GroupCommit;
use crate::reply::Refusal;

/// A store and what goes with it while it is open.
#[derive(Debug)]
pub struct OpenStore {
    pub store: Store,
    pub design: Design,
    pub is_transactional: bool,
    commits: GroupCommit,
    /// Held by who looks at how full a store is before it adds.
    fullness: Mutex<()>,
    /// Whether anything was done since the last commit.
    is_dirty: AtomicBool,
    /// Milliseconds since the server began.
    used: AtomicU64,
    /// Items that CF.DEL removed, which no file keeps.
    pub deleted: AtomicU64,
}

impl OpenStore {
    /// The name under which the server itself commits.
    pub const WRITER: &'static str = "everseen-server";

    pub fn new(store: Store) -> everseen::Result<Self> {
        let stats = store.stats()?;
        Ok(OpenStore {
            design: Design::of_store(store.label(), stats.kind),
            is_transactional: stats.transactional,
            store,
            commits: GroupCommit::default(),
            fullness: Mutex::default(),
            is_dirty: AtomicBool::new(false),
            used: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
        })
    }

    pub(super) fn commits(&self) -> &GroupCommit {
        &self.commits
    }

    /// Notes that something was done that a commit has to cover.
    pub fn soil(&self) {
        self.is_dirty.store(true, Ordering::Release);
    }

    pub fn is_dirty(&self) -> bool {
        self.is_dirty.load(Ordering::Acquire)
    }

    /// Commits what was done.
    pub fn commit(&self) -> Result<(), Refusal> {
        // Before the commit: what comes meanwhile is for the next.
        self.is_dirty.store(false, Ordering::Release);
        match self.store.commit() {
            Ok(_) => Ok(()),
            Err(error) => {
                self.soil();
                Err(error.into())
            }
        }
    }

    /// Keeps all others out who look at how full the store is.
    pub fn alone(&self) -> MutexGuard<'_, ()> {
        self.fullness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn touch(&self, now: Duration) {
        let now = now.as_millis().try_into().unwrap_or(u64::MAX);
        self.used.store(now, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> Duration {
        Duration::from_millis(self.used.load(Ordering::Relaxed))
    }

    /// Returns how many keys there are.
    pub fn keys(&self) -> Result<u64, Refusal> {
        Ok(self.store.fullness()?.keys)
    }
}
