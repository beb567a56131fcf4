//! Sleeping until a word of shared memory changes.

use std::time::Duration;

use super::sync::AtomicU64;

/// Where the system has nothing better, this passes before the word is looked at again.
const MOMENT: Duration = Duration::from_millis(1);

/// Sleeps until [`wake_one`] is called for the word, for at most `slice`. Returns at once if the lower half of the word
/// is not that of `expected`. May return early for no reason.
pub(crate) fn wait(word: &AtomicU64, expected: u64, slice: Duration) {
    if !system::wait(word, expected as u32, slice) {
        std::thread::sleep(slice.min(MOMENT));
    }
}

/// Wakes one of those that sleep on the word, in whatever process.
pub(crate) fn wake_one(word: &AtomicU64) {
    system::wake_one(word);
}

#[cfg(all(not(everseen_portable), not(all(test, loom))))]
mod system {
    use std::sync::atomic::{AtomicU32, AtomicU64};
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::thread::futex::{Flags, Timespec, wait as sleep, wake};

    /// Not `PRIVATE`: the sleepers may be other processes.
    const SHARED: Flags = Flags::empty();

    fn lower_half(word: &AtomicU64) -> &AtomicU32 {
        let halves = std::ptr::from_ref(word).cast::<AtomicU32>();
        let lower = usize::from(cfg!(target_endian = "big"));
        // SAFETY: both halves lie within the word, which is borrowed for as long, and are aligned. Any bytes are a
        // valid AtomicU32. This process never loads or stores through the reference: only its address goes to the
        // system, which compares the value by itself.
        unsafe { &*halves.add(lower) }
    }

    /// Returns `false` if the system can't sleep on words.
    pub(super) fn wait(word: &AtomicU64, expected: u32, slice: Duration) -> bool {
        let slice = Timespec {
            tv_sec: slice.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: slice.subsec_nanos().into(),
        };
        match sleep(lower_half(word), SHARED, expected, Some(&slice)) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => true,
            Err(_) => false,
        }
    }

    pub(super) fn wake_one(word: &AtomicU64) {
        // A sleeper that is not woken looks again when its slice is over.
        let _ = wake(lower_half(word), SHARED, 1);
    }
}

/// Threads of one process sleep, all in one place: few ever do, and each looks at its own word when it wakes.
#[cfg(all(everseen_portable, not(all(test, loom))))]
mod system {
    use std::sync::atomic::Ordering;
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    use crate::sys::lock;
    use crate::sys::sync::AtomicU64;

    static ASLEEP: Mutex<()> = Mutex::new(());
    static WOKEN: Condvar = Condvar::new();

    pub(super) fn wait(word: &AtomicU64, expected: u32, slice: Duration) -> bool {
        let awake = lock(&ASLEEP);
        // A waker changes the word first, and then waits for the mutex.
        if word.load(Ordering::Acquire) as u32 == expected {
            drop(WOKEN.wait_timeout(awake, slice));
        }
        true
    }

    pub(super) fn wake_one(_word: &AtomicU64) {
        drop(lock(&ASLEEP));
        // One alone may sleep on another word.
        WOKEN.notify_all();
    }
}

#[cfg(all(test, loom))]
mod system {
    use std::time::Duration;

    use crate::sys::sync::AtomicU64;

    pub(super) fn wait(_word: &AtomicU64, _expected: u32, _slice: Duration) -> bool {
        false
    }

    pub(super) fn wake_one(_word: &AtomicU64) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_word_that_has_changed_is_not_slept_on() {
        let word = AtomicU64::new(7 | 1 << 40);
        wait(&word, 8 | 1 << 40, LONG);
        // No other thread wakes this sleeper: the slice ends its sleep.
        wait(&word, 7, Duration::from_millis(1));
    }

    /// In a mapping of its own each, as in two processes.
    #[test]
    fn a_sleeper_is_woken_through_another_mapping() {
        let folder = tempfile::tempdir().unwrap();
        let own = crate::sys::Folder::open(folder.path()).unwrap();
        let path = folder.path().join("words");
        let one = crate::sys::Region::create(&own, &path, 512).unwrap();
        let other = crate::sys::Region::open(&own, &path, true).unwrap();
        std::thread::scope(|scope| {
            let sleeping = scope.spawn(|| {
                let word = &one.words()[9];
                while word.load(Ordering::Acquire) == 0 {
                    wait(word, 0, LONG);
                }
            });
            let word = &other.words()[9];
            word.store(1, Ordering::Release);
            while !sleeping.is_finished() {
                wake_one(word);
                std::thread::yield_now();
            }
        });
    }
}
