//! The public `Store`, and how it is created, opened and repaired: thin calls into the modules below.
//!
//! This layer promises what the rustdoc says. It touches nothing by itself and takes no lock.

// In the order in which the documentation of `Store` shows their methods.
pub(crate) mod key;

pub(crate) mod batch;
pub(crate) mod store;

pub(crate) mod claim;

pub(crate) mod remove;

pub(crate) mod condition;
pub(crate) mod entry;
pub(crate) mod exemptions;
pub(crate) mod existing;
#[cfg(all(test, not(loom)))]
mod one_fingerprint;
pub(crate) mod precheck;
pub(crate) mod sieve;

pub(crate) mod backup;
pub(crate) mod program_lock;
