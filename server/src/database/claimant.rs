//! A handle that one connection has for itself, so that its claims are its own.

use std::sync::atomic::{AtomicBool, Ordering};

use everseen::Store;

/// One connection's handle of a store. Without a commit, what it claimed is given back when it is dropped.
#[derive(Debug)]
pub struct Claimant {
    pub store: Store,
    /// Whether the store was closed under it: removed, renamed, or the server ends.
    is_gone: AtomicBool,
}

impl Claimant {
    pub fn new(store: Store) -> Self {
        Claimant {
            store,
            is_gone: AtomicBool::new(false),
        }
    }

    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Closes the handle under the connection that has it. Its claims are given back.
    pub fn close(&self) -> everseen::Result<()> {
        self.is_gone.store(true, Ordering::Release);
        self.store.close().map(drop)
    }
}
