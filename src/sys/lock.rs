//! Advisory locks on files.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::clofork::CloforkFile;

/// The lock would end with the file, except that a child that another thread is about to start holds a copy of the open
/// file until it runs its own program.
impl Drop for LockFile {
    fn drop(&mut self) {
        // Unlocking a locked file can't fail unless the file is not open.
        let _ = fs2::FileExt::unlock(&*self.file);
    }
}

/// A file whose advisory lock (`flock`) can be taken.
///
/// The lock belongs to this open file, not to the process: two handles in one process exclude each other like two
/// processes. The system frees it when the file is closed or the process ends, however it ends; only that reveals a
/// death.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: CloforkFile,
}

impl LockFile {
    /// Opens a file by `open`, which opens it anew at each call: all holders of one open file share the lock.
    pub(crate) fn open(open: impl FnMut() -> io::Result<File>) -> io::Result<Self> {
        let file = CloforkFile::open(open)?;
        Ok(Self { file })
    }

    /// Takes the lock exclusively if it is free.
    pub(crate) fn try_exclusive(&self) -> io::Result<bool> {
        // Not `File::try_lock`, which std has since gained under nearly the same name.
        taken(fs2::FileExt::try_lock_exclusive(&*self.file))
    }
}

/// The number of times a lock was taken, and the total time spent waiting for it. The clock is read only where the
/// first try fails.
#[derive(Debug, Default)]
pub(crate) struct LockWaits {
    taken: AtomicU64,
    nanoseconds: AtomicU64,
}

impl LockWaits {
    /// Takes the mutex that protects the lock.
    pub(crate) fn mutex<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        if let Ok(held) = mutex.try_lock() {
            return held;
        }
        let begun = Instant::now();
        let held = super::lock(mutex);
        self.add(begun.elapsed());
        held
    }

    /// Takes the lock by `wait`, after a first try that failed.
    pub(crate) fn wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let taken = wait();
        self.add(begun.elapsed());
        taken
    }

    /// Counts an acquisition. Only the holder calls this, so no other thread counts at the same time.
    pub(crate) fn count(&self) {
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken + 1, Ordering::Relaxed);
    }

    fn add(&self, waited: Duration) {
        let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(waited, Ordering::Relaxed);
    }

    /// Returns how often the lock was taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns how long all threads together waited for the lock.
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

/// Calls `ask` until it returns `true` or `patience` is over: immediately at first, then in steps that grow to two
/// milliseconds.
///
/// The system can't give up waiting for a lock in time, so this function polls instead.
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
        let waits = LockWaits::default();
        let mutex = Mutex::new(());
        drop(waits.mutex(&mutex));
        waits.count();
        assert_eq!((waits.taken(), waits.waited()), (1, Duration::ZERO));
        let patience = Duration::from_millis(1);
        let never = || Ok::<_, std::convert::Infallible>(false);
        assert_eq!(waits.wait(|| wait_until(patience, never)), Ok(false));
        assert_eq!(waits.taken(), 1);
        assert!(waits.waited() >= patience);
    }
}
