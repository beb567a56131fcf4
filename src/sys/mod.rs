//! What the operating system gives: files, maps, locks. The only folder with `unsafe`.

mod disk;
mod lock;
mod map;
mod prefetch;
mod region;
pub mod storage;

pub(crate) use disk::Disk;
pub(crate) use lock::{LockFile, LockWaits, wait_until};
pub use map::Map;
pub(crate) use prefetch::prefetch;
pub(crate) use region::Region;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A thread that panicked while holding it is no reason to panic as well: what it
/// guards is changed in steps that each leave it sound.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
