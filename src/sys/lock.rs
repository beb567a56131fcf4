//! Advisory locks on files.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The lock would go with the file, but for a child that another thread is about to start: until it
/// runs its own program it holds a copy of the open file.
impl Drop for LockFile {
    fn drop(&mut self) {
        self.unlock();
    }
}

/// A file whose advisory lock (`flock`) may be taken, let go and taken again.
///
/// The lock belongs to this open file, not to the process: two handles in one process exclude each
/// other as two processes do. The system frees it when the file is closed or the process ends,
/// however it ends; by that alone is a death known.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
}

impl LockFile {
    /// Of an open file; whoever shares it shares the lock.
    pub(crate) fn of(file: File) -> Self {
        Self { file }
    }

    /// Takes the lock for this handle alone, if nobody has it.
    pub(crate) fn try_exclusive(&self) -> io::Result<bool> {
        // Not `File::try_lock`, which std has grown since under nearly the same name.
        taken(fs2::FileExt::try_lock_exclusive(&self.file))
    }

    /// Lets go of it.
    pub(crate) fn unlock(&self) {
        // Unlocking what is locked can't fail but for a file that is not open.
        let _ = fs2::FileExt::unlock(&self.file);
    }

    /// Takes the lock alone, waiting for it until `patience` is over.
    pub(crate) fn exclusive(&self, patience: Duration) -> io::Result<bool> {
        wait_until(patience, || self.try_exclusive())
    }
}

/// How often a lock was taken, and how long it was waited for in all. The clock is read only where
/// the first try fails.
#[derive(Debug, Default)]
pub(crate) struct LockWaits {
    taken: AtomicU64,
    nanoseconds: AtomicU64,
}

impl LockWaits {
    /// Takes the mutex that comes before the lock of the file.
    pub(crate) fn mutex<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        if let Ok(held) = mutex.try_lock() {
            return held;
        }
        let begun = Instant::now();
        let held = super::lock(mutex);
        self.add(begun.elapsed());
        held
    }

    /// Takes the lock of the file, waiting for it until `patience` is over.
    pub(crate) fn exclusive(&self, file: &LockFile, patience: Duration) -> io::Result<bool> {
        if file.try_exclusive()? {
            return Ok(true);
        }
        let begun = Instant::now();
        let taken = file.exclusive(patience);
        self.add(begun.elapsed());
        taken
    }

    /// Counts that it was taken. Called by the holder, so nobody else does.
    pub(crate) fn count(&self) {
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken + 1, Ordering::Relaxed);
    }

    fn add(&self, waited: Duration) {
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(waited, Ordering::Relaxed);
    }

    /// How often it was taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How long it was waited for, by all threads together.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

fn taken(outcome: io::Result<()>) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Asks again and again until the answer is yes, or until `patience` is over: at first at once,
/// then in steps that grow to two milliseconds.
///
/// A lock that the system would wait for can't be given up in time, so it is asked for instead.
pub(crate) fn wait_until<E>(
    patience: Duration,
    mut ask: impl FnMut() -> Result<bool, E>,
) -> Result<bool, E> {
    let mut step = Duration::from_micros(2);
    let mut begun = None;
    for round in 0_u32.. {
        if ask()? {
            return Ok(true);
        }
        if round < 20 {
            std::thread::yield_now();
            continue;
        }
        let begun = *begun.get_or_insert_with(Instant::now);
        if begun.elapsed() >= patience {
            break;
        }
        std::thread::sleep(step);
        step = (step * 2).min(Duration::from_millis(2));
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_waits_is_counted_as_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        File::create_new(&path).unwrap();
        let [held, other] = [(); 2].map(|()| LockFile::of(File::open(&path).unwrap()));
        let waits = LockWaits::default();
        let mutex = Mutex::new(());
        drop(waits.mutex(&mutex));
        assert!(waits.exclusive(&held, Duration::ZERO).unwrap());
        waits.count();
        assert_eq!((waits.taken(), waits.waited()), (1, Duration::ZERO));
        assert!(!waits.exclusive(&other, Duration::from_millis(1)).unwrap());
        assert_eq!(waits.taken(), 1);
        assert!(waits.waited() >= Duration::from_millis(1));
    }
}
