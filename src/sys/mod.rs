//! What the operating system provides (files, maps, locks, memory), and what only some processors have (`simd`). The
//! only folder with `unsafe`.

mod access;
mod address_space;
mod append_map;
mod cached;
mod clofork;
mod copy;
mod disk;
pub(crate) mod elapsed;
mod folder;
pub(crate) mod futex;
pub(crate) mod huge_pages;
mod lock;
#[cfg(all(test, loom))]
mod loom_memory;
#[cfg(not(all(test, loom)))]
mod map;
mod memory;
mod page_faults;
#[cfg(everseen_portable)]
mod portable;
mod process;
mod range_lock;
#[cfg(not(any(everseen_portable, all(test, loom))))]
mod region;
pub(crate) mod simd;
pub mod storage;
pub(crate) mod sync;
pub(crate) mod two_threads;

pub(crate) use access::expect_to_make_in;
pub(crate) use address_space::AddressSpace;
pub(crate) use cached::{drop_cached, is_cached};
pub(crate) use copy::copy;
pub(crate) use disk::Disk;
pub(crate) use folder::{FileId, FileState, Folder, NotAFile, NotOurs, SECOND_MAGIC, state_of};
pub(crate) use lock::{LockFile, LockWaits, wait_until};
#[cfg(all(test, loom))]
pub use loom_memory::Map;
#[cfg(all(test, loom))]
pub(crate) use loom_memory::{Parts, Region, Words, explore};
#[cfg(not(all(test, loom)))]
pub use map::Map;
#[cfg(not(all(test, loom)))]
pub(crate) use map::{Parts, Words};
pub(crate) use memory::Memory;
pub(crate) use page_faults::major_faults;
#[cfg(all(everseen_portable, not(all(test, loom))))]
pub(crate) use portable::region::Region;
pub(crate) use process::Process;
pub(crate) use range_lock::{LockedFile, RangeLock};
#[cfg(not(any(everseen_portable, all(test, loom))))]
pub(crate) use region::Region;
pub(crate) use simd::highway::Pairs;
pub(crate) use simd::prefetch::{prefetch, prefetch_all};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A thread that panicked while it held the mutex does not make this one panic: each step of a change
/// leaves the guarded value sound.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
