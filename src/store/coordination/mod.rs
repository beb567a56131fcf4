//! TODO coordination

pub(crate) mod biased_lock;
pub(crate) mod fsync_failures;
pub(crate) mod handle;
pub(crate) mod legacy_locks;
pub(crate) mod locks;
pub(crate) mod place;
pub(crate) mod shm;
pub(crate) mod shm_files;
pub(crate) mod shm_mismatch;
