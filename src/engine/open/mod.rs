//! A handle's life: create, open or join, recover, close.
//!
//! This module promises that what was acknowledged is there after any kill or power cut. Everything here runs under the
//! open/close lock, so that the first handle to open and the last to close are known without a race.

pub(crate) mod attach;
pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod follower;
pub(crate) mod handle;
pub(crate) mod leftover_logs;
pub(crate) mod read_only;
pub(crate) mod recover;
pub(crate) mod recovered_log;
pub(crate) mod strays;
pub(crate) mod unpublished;
