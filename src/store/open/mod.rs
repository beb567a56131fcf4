//! A handle's life: create, open or join, recover, close.
//!
//! It promises that what was acknowledged is there after any kill or power cut. Everything here runs inside the gate, so
//! that the first handle in and the last one out are known without a race.

pub(crate) mod attach;
pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod handle;
pub(crate) mod like;
pub(crate) mod recover;
pub(crate) mod session;
