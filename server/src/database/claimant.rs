//! A handle that one connection has for itself, so that its claims are its own.

use everseen::Store;

/// One connection's handle of a store. Without a commit, what it claimed is given back when it is dropped.
#[derive(Debug)]
pub struct Claimant {
    pub store: Store,
}
