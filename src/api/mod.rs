//! The public `Store` and `Options::{create, open, repair}`: thin calls into the modules below.
//!
//! This layer promises what the rustdoc says. It touches nothing by itself and takes no lock.

pub(crate) mod backup;
pub(crate) mod counting;
pub(crate) mod entry;
pub(crate) mod exemptions;
pub(crate) mod existing;
pub(crate) mod measured;
#[cfg(all(test, not(loom)))]
mod one_fingerprint;
pub(crate) mod precheck;
pub(crate) mod program_lock;
pub(crate) mod sieve;
pub(crate) mod store;
