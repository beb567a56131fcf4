//! What a handle keeps about the checkpoints that it runs.

use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;

use crate::store::engine::damage::Damage;
use crate::sys::lock;

/// The checkpoints of this process.
#[derive(Debug, Default)]
pub(crate) struct CheckpointState {
    /// Excludes this process's other checkpoints; the store file's lock excludes those of other processes.
    running: Mutex<()>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The damaged pages that checkpoints of this handle have rewritten.
    repaired: Mutex<Vec<Damage>>,
}

impl CheckpointState {
    /// Keeps this process's other threads from running checkpoints.
    pub(crate) fn exclude_threads(&self) -> MutexGuard<'_, ()> {
        lock(&self.running)
    }

    /// Keeps a thread to join later, and forgets those that have finished.
    pub(crate) fn add_thread(&self, thread: JoinHandle<()>) {
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Waits for this handle's own threads.
    pub(crate) fn join_threads(&self) {
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

    /// Returns the repairs recorded so far, and forgets them.
    pub(crate) fn take_repaired(&self) -> Vec<Damage> {
        std::mem::take(&mut *lock(&self.repaired))
    }
}
