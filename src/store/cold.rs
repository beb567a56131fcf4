//! Whether look-ups wait for the disk.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::batch::BATCH;

/// Whether look-ups wait for the disk, as far as their times tell. Then pages are asked for ahead,
/// which lets the disk work at many at once, and would only cost time where they are in memory.
///
/// Threads may disturb each other here: it is all guessing.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    /// For so many batches pages are still to be asked for; then it is tried without.
    left: AtomicU32,
    /// For how many it was to be, the last time. None since some in a row didn't wait.
    times: AtomicU32,
    /// Batches in a row, without asking, that waited, and that didn't.
    slow: AtomicU32,
    fast: AtomicU32,
    /// Held by the one thread whose part may be as large as memory allows.
    sweep: Mutex<()>,
}

impl Cold {
    /// From so much a key on, somebody waited. A system that took the processor away in between
    /// looks the same, so it takes two in a row.
    const SLOW: Duration = Duration::from_micros(4);
    /// For how many batches pages are asked for at first, and if it turns out each time that this was
    /// right.
    const TIMES: u32 = 256;
    const MOST_TIMES: u32 = 1 << 14;
    /// So many batches that don't wait prove that pages are in memory.
    const PROOF: u32 = 64;

    /// Whether to ask for the next batch's pages.
    pub(crate) fn asks(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Whether pages had to come from the disk of late.
    pub(crate) fn is_likely(&self) -> bool {
        self.times.load(Ordering::Relaxed) > 0
    }

    /// Leave to look up a part as large as memory allows, which pays if it saves walks over pages
    /// that come from the disk.
    pub(crate) fn sweep(&self) -> Option<MutexGuard<'_, ()>> {
        if !self.is_likely() {
            return None;
        }
        self.sweep.try_lock().ok()
    }

    /// Takes note of what looking up took.
    pub(crate) fn note(&self, asked: bool, taken: Duration, keys: usize) {
        if keys < BATCH {
            return;
        }
        let (load, store) = (
            |word: &AtomicU32| word.load(Ordering::Relaxed),
            |word: &AtomicU32, value| word.store(value, Ordering::Relaxed),
        );
        if asked {
            store(&self.left, load(&self.left).saturating_sub(1));
        } else if taken > Self::SLOW * keys as u32 {
            let slow = load(&self.slow) + 1;
            store(&self.slow, slow % 2);
            if slow == 2 {
                let times = (load(&self.times) * 2).clamp(Self::TIMES, Self::MOST_TIMES);
                store(&self.times, times);
                store(&self.left, times);
                store(&self.fast, 0);
            }
        } else {
            let fast = load(&self.fast).saturating_add(1);
            store(&self.slow, 0);
            // A store to the same line by each thread, at each batch, would cost them time.
            if fast <= Self::PROOF {
                store(&self.fast, fast);
            }
            if fast == Self::PROOF {
                store(&self.times, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_micros(4 * 513);

    /// Batches for which pages are asked for.
    fn cold_for(cold: &Cold) -> u32 {
        let mut times = 0;
        while cold.asks() {
            cold.note(true, SLOW, 512);
            times += 1;
        }
        times
    }

    #[test]
    fn pages_are_asked_for_after_two_slow_looks_and_not_for_ever() {
        let cold = Cold::default();
        cold.note(false, SLOW, 512);
        assert!(!cold.asks());
        cold.note(false, Duration::ZERO, 512);
        cold.note(false, SLOW, 512);
        assert!(!cold.asks() && !cold.is_likely());
        cold.note(false, SLOW, 512);
        assert!(cold.is_likely());
        assert_eq!(cold_for(&cold), Cold::TIMES);
    }

    #[test]
    fn what_was_right_is_kept_for_longer_until_it_is_proven_wrong() {
        let cold = Cold::default();
        for times in [1, 2, 4].map(|times| times * Cold::TIMES) {
            // Those that were asked for ahead are there.
            cold.note(false, Duration::ZERO, 512);
            cold.note(false, SLOW, 512);
            cold.note(false, SLOW, 512);
            assert_eq!(cold_for(&cold), times);
            assert!(cold.is_likely());
        }
        for _ in 0..Cold::PROOF {
            assert!(cold.is_likely());
            cold.note(false, Duration::ZERO, 512);
        }
        assert!(!cold.is_likely());
        cold.note(false, SLOW, 512);
        cold.note(false, SLOW, 512);
        assert_eq!(cold_for(&cold), Cold::TIMES);
    }

    #[test]
    fn one_thread_at_a_time_may_sweep() {
        let cold = Cold::default();
        assert!(cold.sweep().is_none());
        cold.note(false, SLOW, 512);
        cold.note(false, SLOW, 512);
        let held = cold.sweep();
        assert!(held.is_some() && cold.sweep().is_none());
        drop(held);
        assert!(cold.sweep().is_some());
    }
}
