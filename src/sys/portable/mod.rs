//! What stands in for Linux: one process has a store at a time, and its threads and handles share it.
//!
//! The build script decides, and can be overruled on Linux for tests (docs/design.md, "Systems other than Linux").

pub(super) mod byte_locks;
pub(super) mod process_lock;
#[cfg(not(all(test, loom)))]
pub(super) mod region;
#[cfg(windows)]
pub(super) mod windows;
