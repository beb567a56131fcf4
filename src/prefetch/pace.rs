//! What look-ups cost where pages come from the disk, as measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Measures how long keys of batches of an ordinary size take, and pages that are read in order. Threads may disturb
/// each other here: everything is an estimate.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Nanoseconds for a key; 0 as long as none was measured.
    key: AtomicU64,
    /// Nanoseconds for a page of a sweep; 0 as long as none was measured.
    page: AtomicU64,
}

impl Pace {
    /// A batch of up to this many keys is of an ordinary size. A larger one is cheaper by the key, since its keys share
    /// pages.
    pub(crate) const ORDINARY: usize = 1 << 15;
    /// A key that takes less than this many nanoseconds has not waited for the disk.
    const IN_MEMORY: u64 = 2_000;
    /// Until a sweep was measured, a page of it counts as this share of a key, and as at least this many nanoseconds.
    const ASSUMED_SHARE: u64 = 8;
    const LEAST_ASSUMED: u64 = 1_000;

    /// Notes how long the keys of a batch took.
    pub(crate) fn note_keys(&self, keys: usize, taken: Duration) {
        if (1..=Self::ORDINARY).contains(&keys) {
            blend(&self.key, nanos(taken) / keys as u64);
        }
    }

    /// Notes how long a sweep over some pages took.
    pub(crate) fn note_sweep(&self, pages: u64, taken: Duration) {
        if let Some(page) = nanos(taken).checked_div(pages) {
            blend(&self.page, page);
        }
    }

    /// Returns whether one sweep over the pages takes less time than this many keys in batches of an ordinary size.
    pub(crate) fn is_sweep_cheaper(&self, keys: u64, pages: u64) -> bool {
        let key = self.key.load(Ordering::Relaxed);
        key >= Self::IN_MEMORY && u128::from(key) * u128::from(keys) > self.sweep_nanos(pages)
    }

    /// Returns how long a sweep over the pages takes.
    pub(crate) fn sweep_time(&self, pages: u64) -> Duration {
        Duration::from_nanos(u64::try_from(self.sweep_nanos(pages)).unwrap_or(u64::MAX))
    }

    fn sweep_nanos(&self, pages: u64) -> u128 {
        let assumed = self.key.load(Ordering::Relaxed) / Self::ASSUMED_SHARE;
        let page = match self.page.load(Ordering::Relaxed) {
            0 => assumed.max(Self::LEAST_ASSUMED),
            measured => measured,
        };
        u128::from(page) * u128::from(pages)
    }
}

fn nanos(taken: Duration) -> u64 {
    u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX)
}

/// Moves an estimate a fourth of the way to what was measured last.
fn blend(estimate: &AtomicU64, measured: u64) {
    let old = estimate.load(Ordering::Relaxed);
    let new = match old {
        0 => measured,
        old => old - old / 4 + measured / 4,
    };
    estimate.store(new.max(1), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = 524_288;

    #[test]
    fn nothing_is_swept_before_keys_have_waited() {
        let pace = Pace::default();
        assert!(!pace.is_sweep_cheaper(u64::MAX, PAGES));
        // As fast as memory.
        pace.note_keys(16_384, Duration::from_millis(3));
        assert!(!pace.is_sweep_cheaper(u64::MAX, PAGES));
    }

    #[test]
    fn the_disk_decides_how_many_keys_are_worth_a_sweep() {
        let pace = Pace::default();
        // 13 microseconds for a key at random, 2.7 for a page in order.
        pace.note_keys(16_384, Duration::from_micros(13 * 16_384));
        pace.note_sweep(PAGES, Duration::from_nanos(2_700 * PAGES));
        let even = PAGES * 2_700 / 13_000;
        assert!(pace.is_sweep_cheaper(even + 2_000, PAGES));
        assert!(!pace.is_sweep_cheaper(even - 2_000, PAGES));
        assert_eq!(pace.sweep_time(PAGES), Duration::from_nanos(2_700 * PAGES));
        // A disk with a moving arm: few keys are worth a sweep.
        for _ in 0..40 {
            pace.note_keys(1_000, Duration::from_secs(5));
        }
        assert!(pace.is_sweep_cheaper(1_000, PAGES));
    }

    #[test]
    fn a_large_batch_says_nothing_about_an_ordinary_one() {
        let pace = Pace::default();
        pace.note_keys(16_384, Duration::from_millis(200));
        for _ in 0..40 {
            pace.note_keys(Pace::ORDINARY + 1, Duration::from_millis(1));
        }
        assert!(pace.is_sweep_cheaper(1_000_000, PAGES));
    }
}
