//! A store that is open, as all connections share it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everseen::{Error, ForgetBy, Store};

use super::design::Design;
use super::group_commit::GroupCommit;
use crate::reply::Refusal;

/// Commits of all stores.
#[derive(Debug, Default)]
pub struct CommitCounts {
    pub done: AtomicU64,
    pub failed: AtomicU64,
}

/// A store and what goes with it while it is open.
#[derive(Debug)]
pub struct OpenStore {
    pub store: Store,
    pub design: Design,
    pub is_transactional: bool,
    /// Whether an item that is there counts from now on when it comes again.
    pub renews: bool,
    commits: GroupCommit,
    counts: Arc<CommitCounts>,
    /// Held by who looks at how full a store is before it adds.
    fullness: Mutex<()>,
    /// Whether anything was done since the last commit.
    is_dirty: AtomicBool,
    /// Changes and commits under way.
    at_work: AtomicU64,
    /// Whether closing it made all durable that was done; `None` before. Held while it is being closed.
    is_safe: Mutex<Option<bool>>,
    /// Milliseconds since the server began.
    used: AtomicU64,
    /// Items that CF.DEL removed. The tag of the server's commits keeps their number.
    pub deleted: AtomicU64,
}

/// Something that is being done in a store.
#[derive(Debug)]
pub struct AtWork<'s>(&'s OpenStore);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::AcqRel);
    }
}

const DELETED: &str = "deleted ";

/// Returns how many items CF.DEL had removed when the server last committed.
fn deleted_before(store: &Store) -> everseen::Result<u64> {
    let commit = store.last_commit(OpenStore::WRITER)?;
    let number = commit.and_then(|commit| {
        let text = std::str::from_utf8(&commit.tag).ok()?;
        text.strip_prefix(DELETED)?.parse().ok()
    });
    Ok(number.unwrap_or(0))
}

impl OpenStore {
    /// The name under which the server itself commits.
    pub const WRITER: &'static str = "everseen-server";

    pub fn new(store: Store, counts: Arc<CommitCounts>) -> everseen::Result<Self> {
        let stats = store.stats()?;
        Ok(OpenStore {
            design: Design::of_store(store.label(), stats.kind),
            is_transactional: stats.transactional,
            renews: stats
                .forgetting
                .is_some_and(|forgetting| forgetting.by == ForgetBy::Last),
            deleted: AtomicU64::new(deleted_before(&store)?),
            store,
            commits: GroupCommit::default(),
            counts,
            fullness: Mutex::default(),
            is_dirty: AtomicBool::new(false),
            at_work: AtomicU64::new(0),
            is_safe: Mutex::new(None),
            used: AtomicU64::new(0),
        })
    }

    pub(super) fn commits(&self) -> &GroupCommit {
        &self.commits
    }

    /// Notes that something was done that a commit has to cover.
    pub fn soil(&self) {
        self.is_dirty.store(true, Ordering::Release);
    }

    /// Returns whether the handle refuses all work, as it does after a write or sync that failed.
    pub fn has_failed(&self) -> bool {
        self.store.fullness().is_err()
    }

    pub fn is_dirty(&self) -> bool {
        self.is_dirty.load(Ordering::Acquire)
    }

    /// Notes that something is being done, until the guard goes: a change, until it is noted with [`soil`](Self::soil), or a
    /// commit.
    pub fn work(&self) -> AtWork<'_> {
        self.at_work.fetch_add(1, Ordering::AcqRel);
        AtWork(self)
    }

    /// Returns whether something that others see may not be durable.
    pub fn is_unsettled(&self) -> bool {
        let is_at_work = || self.at_work.load(Ordering::Acquire) > 0;
        // A commit that begins between the first two looks is under way at the last, or through.
        is_at_work() || self.is_dirty() || is_at_work()
    }

    /// Commits what was done.
    pub fn commit(&self) -> Result<(), Refusal> {
        Ok(self.try_commit()?)
    }

    fn try_commit(&self) -> everseen::Result<()> {
        match self.commit_open() {
            // A transactional store has dropped what wasn't committed. Of any, the disk may have failed.
            Err(Error::Closed) if !self.is_transactional && *self.is_safe() == Some(true) => Ok(()),
            outcome => outcome.inspect_err(|_| self.note_failed()),
        }
    }

    fn note_failed(&self) {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        self.soil();
    }

    fn is_safe(&self) -> MutexGuard<'_, Option<bool>> {
        self.is_safe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits what was done, and closes the store.
    pub(super) fn close(&self) -> everseen::Result<()> {
        let mut is_safe = self.is_safe();
        // A transactional store drops what isn't committed, and the server's own part is what it answered.
        let committed = match self.is_dirty() {
            true => self.commit_open().inspect_err(|_| self.note_failed()),
            false => Ok(()),
        };
        let closed = self.store.close().map(drop);
        let outcome = committed.and(closed);
        *is_safe = Some(outcome.is_ok());
        outcome
    }

    fn commit_open(&self) -> everseen::Result<()> {
        let _at_work = self.work();
        // Before the commit: what comes meanwhile is for the next.
        self.is_dirty.store(false, Ordering::Release);
        let deleted = self.deleted.load(Ordering::Relaxed);
        let committed = match deleted {
            0 => self.store.commit(),
            deleted => self
                .store
                .commit_with(format!("{DELETED}{deleted}").as_bytes()),
        };
        committed?;
        self.counts.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
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

#[cfg(test)]
mod tests {
    use everseen::CreateOptions;

    use super::*;

    #[test]
    fn what_is_being_done_or_committed_is_not_settled() {
        let folder = tempfile::tempdir().unwrap();
        let store = CreateOptions::new()
            .create(folder.path().join("s"))
            .unwrap();
        let store = OpenStore::new(store, Arc::default()).unwrap();
        assert!(!store.is_unsettled());
        let at_work = [store.work(), store.work()];
        assert!(store.is_unsettled());
        drop(at_work);
        assert!(!store.is_unsettled());
        store.soil();
        assert!(store.is_unsettled());
        store.commit().unwrap();
        assert!(!store.is_unsettled());
    }
}
