//! Atomics: the processor's or, in a build with `--cfg loom` (tests only), the model checker's.
//!
//! All words that threads or processes share without a lock have these types, so that the checked code is the code that
//! runs.

#[cfg(not(all(test, loom)))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
    thread::yield_now,
};

#[cfg(all(test, loom))]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
    thread::yield_now,
};
