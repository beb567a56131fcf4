//! Which handles have the store open, and which of them may act: shared memory, locks, poisoning.
//!
//! Guarantees that two handles that open one file, by whatever names, know of each other. This module touches
//! `NAME-shm` and lock bytes of the store file, never the store's own bytes. The lock order is in [`locks`].

pub(crate) mod buffer_sizes;
pub(crate) mod coordination;
pub(crate) mod fsync_failures;
pub(crate) mod handle;
pub(crate) mod handle_slot;
pub(crate) mod legacy_locks;
pub(crate) mod locks;
#[cfg(all(test, loom))]
mod loom;
pub(crate) mod map_lease;
pub(crate) mod place;
pub(crate) mod session_lock;
pub(crate) mod shm_files;
pub(crate) mod shm_mismatch;
pub(crate) mod store_clock;
pub(crate) mod writer_lock;
