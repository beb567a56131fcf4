//! What the operating system gives: files, maps, locks; and what only some processors have. The only folder with
//! `unsafe`.

mod appending;
mod copy;
mod disk;
mod highway;
mod lock;
#[cfg(not(all(test, loom)))]
mod map;
#[cfg(all(test, loom))]
mod modelled;
pub(crate) mod modern;
mod prefetch;
mod process;
#[cfg(not(all(test, loom)))]
mod region;
pub(crate) mod runs;
pub mod storage;
pub(crate) mod sync;

pub(crate) use disk::{Disk, room_in};
pub(crate) use highway::Pairs;
pub(crate) use lock::{LockFile, LockWaits, wait_until};
#[cfg(not(all(test, loom)))]
pub use map::Map;
#[cfg(not(all(test, loom)))]
pub(crate) use map::Words;
#[cfg(all(test, loom))]
pub use modelled::Map;
#[cfg(all(test, loom))]
pub(crate) use modelled::{Region, Words, explore};
pub(crate) use prefetch::prefetch;
pub(crate) use process::Process;
#[cfg(not(all(test, loom)))]
pub(crate) use region::Region;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A thread that panicked while holding it is no reason to panic as well: what it
/// guards is changed in steps that each leave it sound.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
