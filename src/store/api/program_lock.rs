//! A lock that programs may use among themselves.

use crate::error::Result;
use crate::store::api::store::Store;
use crate::store::coordination::locks::StoreLocks;
use crate::sys::RangeLock;

/// The lock that [`Store::try_lock`] gives. Let go of when this is dropped, or its process ends.
#[derive(Debug)]
#[must_use = "it is let go of at once otherwise"]
pub struct StoreLock {
    _lock: RangeLock,
}

impl Store {
    /// A lock for programs that have to be alone in something, whatever that is: of all who ask for it, in all
    /// processes and by whatever name they opened the store, one has it. Otherwise `None`. The store itself never asks,
    /// and keeps nobody from anything by it.
    ///
    /// # Errors
    /// [`Error::NoLocks`](crate::Error::NoLocks), [`Error::Moved`](crate::Error::Moved), and what the operating system
    /// says.
    pub fn try_lock(&self) -> Result<Option<StoreLock>> {
        let taken =
            StoreLocks::for_programs(&self.engine.file.place, self.engine.handle.locks.id())?;
        Ok(taken.map(|lock| StoreLock { _lock: lock }))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::Options;

    #[test]
    fn one_handle_has_it_at_a_time_and_the_store_is_not_kept_from_anything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().buffer(crate::LEAST_BUFFER);
        let one = options.create(&path).unwrap();
        let held = one.try_lock().unwrap().unwrap();
        assert!(one.try_lock().unwrap().is_none());
        let other = options.open(&path).unwrap();
        assert!(other.try_lock().unwrap().is_none());
        assert!(other.insert(b"key").unwrap());
        other.checkpoint().unwrap();
        drop(held);
        let held = other.try_lock().unwrap().unwrap();
        one.close().unwrap();
        other.close().unwrap();
        let again = options.open(&path).unwrap();
        assert!(again.try_lock().unwrap().is_none());
        drop(held);
        assert!(again.try_lock().unwrap().is_some());
    }
}
