//! A lock for programs to use among themselves.

use crate::api::store::Store;
use crate::error::Result;
use crate::shm::locks::StoreLocks;
use crate::sys::RangeLock;

/// The lock that [`Store::try_lock`] returns. It is released when this is dropped or its process ends.
#[derive(Debug)]
#[must_use = "it is let go of at once otherwise"]
pub struct StoreLock {
    _lock: RangeLock,
}

impl Store {
    /// Tries to take a lock that programs may use to exclude each other, for whatever purpose. Across all processes,
    /// under whatever name they opened the store, one caller holds it; the others get `None`. The store itself never
    /// takes this lock, and holding it blocks no operation of the store. On systems other than Linux,
    /// a process that holds it also keeps others from the store.
    ///
    /// # Errors
    /// [`Error::NoLocks`](crate::Error::NoLocks), [`Error::Moved`](crate::Error::Moved), and errors of the operating
    /// system.
    pub fn try_lock(&self) -> Result<Option<StoreLock>> {
        let taken =
            StoreLocks::for_programs(&self.engine.file.place, self.engine.handle.locks.id())?;
        Ok(taken.map(|lock| StoreLock { _lock: lock }))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Options;

    #[test]
    fn one_handle_has_it_at_a_time_and_the_store_is_not_kept_from_anything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().buffer(crate::testing::LEAST_BUFFER);
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
