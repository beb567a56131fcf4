//! What a handle keeps about the checkpoints that it runs.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::{JoinHandle, ThreadId};

use crate::page::Damage;
use crate::sys::lock;
use crate::sys::sync::{AtomicBool, AtomicU64, Ordering};

/// Held by a thread that waits for a checkpoint, or closes the handle, and is counted for as long.
#[must_use]
pub(crate) struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn by(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a thread that was not counted");
    }
}

/// While this is held, no other thread of this process runs a checkpoint.
#[derive(Debug)]
#[must_use]
pub(crate) struct ExcludedThreads<'a> {
    by: &'a Mutex<Option<ThreadId>>,
    _one: MutexGuard<'a, ()>,
}

impl Drop for ExcludedThreads<'_> {
    fn drop(&mut self) {
        *lock(self.by) = None;
    }
}

/// The checkpoints of this process.
#[derive(Debug, Default)]
pub(crate) struct CheckpointState {
    /// Excludes this process's other checkpoints; the store file's lock excludes those of other processes.
    running: Mutex<()>,
    /// The thread that excludes the others.
    excluding: Mutex<Option<ThreadId>>,
    /// A thread runs a checkpoint, rather than just holding checkpoints off.
    is_running: AtomicBool,
    /// How many threads of this process wait until a checkpoint is through.
    waiting: AtomicU64,
    /// How many threads of this process close the handle.
    closing: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Whether checkpoints look for damage everywhere.
    is_repairing: AtomicBool,
    /// Whether a caller wants all runs merged.
    is_full: AtomicBool,
    /// The damaged pages that checkpoints of this handle have rewritten.
    repaired: Mutex<Vec<Damage>>,
    /// How many pages the checkpoints of this handle have written to free room.
    pages_written: AtomicU64,
}

impl CheckpointState {
    /// Keeps this process's other threads from running checkpoints. Returns `None` if this very thread does so already
    /// and would wait for itself: a copy calls its caller back, and that may do anything.
    pub(crate) fn exclude_threads(&self) -> Option<ExcludedThreads<'_>> {
        if self.is_excluding() {
            return None;
        }
        Some(self.excluded(lock(&self.running)))
    }

    /// Does so unless another thread does, or this one.
    pub(crate) fn try_exclude_threads(&self) -> Option<ExcludedThreads<'_>> {
        match self.running.try_lock() {
            Ok(one) => Some(self.excluded(one)),
            Err(TryLockError::Poisoned(one)) => Some(self.excluded(one.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn excluded<'a>(&'a self, one: MutexGuard<'a, ()>) -> ExcludedThreads<'a> {
        *lock(&self.excluding) = Some(std::thread::current().id());
        ExcludedThreads {
            by: &self.excluding,
            _one: one,
        }
    }

    /// Returns whether this thread keeps the others from running checkpoints.
    pub(crate) fn is_excluding(&self) -> bool {
        *lock(&self.excluding) == Some(std::thread::current().id())
    }

    /// Sets whether a checkpoint is running. The caller excludes other threads.
    pub(crate) fn set_running(&self, is_running: bool) {
        let was_running = self.is_running.load(Ordering::Relaxed);
        assert!(was_running != is_running, "two checkpoints at once");
        self.is_running.store(is_running, Ordering::Release);
    }

    /// Waits for the checkpoint that a thread of this process runs, and for the buffer that this thread then makes
    /// ahead. Doesn't wait for a thread that only holds checkpoints off: that may take as long as reading the store.
    pub(crate) fn wait_for_thread(&self) {
        if self.is_running.load(Ordering::Acquire) {
            let _waiting = self.wait();
            drop(self.exclude_threads());
        }
    }

    /// Says that the caller waits until a checkpoint is through, for as long as it keeps what this returns.
    pub(crate) fn wait(&self) -> Counted<'_> {
        Counted::by(&self.waiting)
    }

    /// Returns whether a thread of this process waits for a checkpoint, and leaves its processor to it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Says that the caller closes the handle, for as long as it keeps what this returns.
    pub(crate) fn note_closing(&self) -> Counted<'_> {
        Counted::by(&self.closing)
    }

    /// Returns whether the handle is being closed, so that it needs no other buffer, and no filter.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed) > 0
    }

    /// Returns whether checkpoints look for damaged segments, and not only merge those that change.
    pub(crate) fn is_repairing(&self) -> bool {
        self.is_repairing.load(Ordering::Acquire)
    }

    /// Returns whether checkpoints merge all runs, whatever comes.
    pub(crate) fn merges_all(&self) -> bool {
        self.is_full.load(Ordering::Acquire) || self.is_repairing()
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Release);
    }

    pub(crate) fn set_repairing(&self, is_repairing: bool) {
        self.is_repairing.store(is_repairing, Ordering::Release);
    }

    /// Keeps a thread to join later, and forgets those that have finished.
    pub(crate) fn add_thread(&self, thread: JoinHandle<()>) {
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Waits for this handle's own threads.
    pub(crate) fn join_threads(&self) {
        let _waiting = self.wait();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A panic has poisoned the handle.
            let _ = thread.join();
        }
    }

    /// Records that a checkpoint has rewritten a damaged page.
    pub(crate) fn note_repair(&self, layer: u32, page: u64, keys: u64) {
        lock(&self.repaired).push(Damage { layer, page, keys });
    }

    /// Notes pages that a checkpoint has written to free room.
    pub(crate) fn note_written(&self, pages: u64) {
        self.pages_written.fetch_add(pages, Ordering::Relaxed);
    }

    /// Returns how many these are so far.
    pub(crate) fn pages_written(&self) -> u64 {
        self.pages_written.load(Ordering::Relaxed)
    }

    /// Returns the repairs recorded so far, and forgets them.
    pub(crate) fn take_repaired(&self) -> Vec<Damage> {
        std::mem::take(&mut *lock(&self.repaired))
    }
}
