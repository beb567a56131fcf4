//! Whether look-ups wait for the disk.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::store::read::staged::BATCH;
use crate::sys::lock;

/// Whether look-ups wait for the disk, as far as their times tell. Then pages are asked for ahead,
/// which lets the disk work at many at once, and would only cost time where they are in memory.
///
/// Threads may disturb each other here: it is guessing, but for whether memory is tight, which the system is asked.
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
    /// Whether pages that a walk had kept were gone by the next one: then memory has no room for them.
    tight: AtomicBool,
    kept: Mutex<Kept>,
    /// Walks since it was last found to be tight.
    walks: AtomicU32,
}

/// What the last walk has kept.
#[derive(Debug, Default)]
struct Kept {
    /// Where in the file some of its pages lie.
    sample: Vec<u64>,
    /// Walks that give up what they pass: those under way, and those that have begun.
    leaving: u32,
    begun: u64,
}

/// A walk over the pages in their order.
#[derive(Debug)]
pub(crate) struct CountedWalk {
    /// Whether it is to give up what it passes.
    pub(crate) leaves: bool,
    /// How many walks that do had begun before it; none if one was under way.
    before: Option<u64>,
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
    /// After so many walks over the pages in their order, one keeps its pages to see whether they stay.
    const WALKS: u32 = 8;
    /// Memory is tight if one in so many pages that were kept is gone: few, since what goes first is what the next
    /// walk comes to first, and so on to its end.
    const GONE: usize = 8;

    /// Whether to ask for the next batch's pages.
    pub(crate) fn asks(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Whether pages had to come from the disk of late.
    pub(crate) fn is_likely(&self) -> bool {
        self.times.load(Ordering::Relaxed) > 0
    }

    /// Whether to give up the memory of pages that were passed. Slow look-ups alone don't tell: they would be
    /// slow for ever, if what they had read were given up each time, in memory that has room for all of it.
    pub(crate) fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }

    /// A walk over the pages in their order begins, in which they may be asked for.
    pub(crate) fn begin_walk(&self, is_cached: impl Fn(u64) -> Option<bool>) -> CountedWalk {
        let mut kept = lock(&self.kept);
        self.judge(&std::mem::take(&mut kept.sample), is_cached);
        let before = (kept.leaving == 0).then_some(kept.begun);
        let leaves = self.is_tight();
        kept.leaving += u32::from(leaves);
        kept.begun += u64::from(leaves);
        CountedWalk { leaves, before }
    }

    /// Takes note of whether pages that were kept are still in memory. Where they are there is nothing to ask for,
    /// until somebody waits again.
    fn judge(&self, kept: &[u64], is_cached: impl Fn(u64) -> Option<bool>) {
        let told: Vec<bool> = kept.iter().filter_map(|at| is_cached(*at)).collect();
        if told.is_empty() {
            return;
        }
        let gone = told.iter().filter(|is_there| !**is_there);
        if gone.count() * Self::GONE >= told.len() {
            self.tight.store(true, Ordering::Relaxed);
            self.walks.store(0, Ordering::Relaxed);
        } else {
            self.left.store(0, Ordering::Relaxed);
        }
    }

    /// It has ended. `sample` tells where some pages lie that it has asked for.
    pub(crate) fn end_walk(&self, walk: &CountedWalk, sample: Vec<u64>) {
        let mut kept = lock(&self.kept);
        if walk.leaves {
            kept.leaving -= 1;
            if self.walks.fetch_add(1, Ordering::Relaxed) + 1 >= Self::WALKS {
                self.tight.store(false, Ordering::Relaxed);
            }
        } else if walk.before == Some(kept.begun) {
            // Beside a walk that gives pages up, what this one kept would tell nothing.
            kept.sample = sample;
        }
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
                self.tight.store(false, Ordering::Relaxed);
                // By the next walk it may have gone for other reasons.
                lock(&self.kept).sample.clear();
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

    fn two_slow_looks(cold: &Cold) {
        for _ in 0..2 {
            cold.note(false, SLOW, 512);
        }
        assert!(cold.asks());
    }

    fn sample() -> Vec<u64> {
        (0..64).collect()
    }

    /// One walk over the pages, which begins with so many of the kept ones gone; answers whether it keeps its own.
    fn walk(cold: &Cold, gone: u64) -> bool {
        two_slow_looks(cold);
        let walk = cold.begin_walk(|at| Some(at >= gone));
        cold.end_walk(&walk, sample());
        !walk.leaves
    }

    #[test]
    fn memory_is_tight_if_pages_that_were_kept_are_gone() {
        let cold = Cold::default();
        assert!(walk(&cold, 64));
        for _ in 0..3 {
            for _ in 0..Cold::WALKS {
                assert!(!walk(&cold, 8));
                assert!(cold.asks());
            }
            // One of them keeps its pages again.
            assert!(walk(&cold, 64));
        }
    }

    #[test]
    fn it_is_not_if_most_of_them_stay_or_none_can_tell() {
        let cold = Cold::default();
        for _ in 0..3 {
            assert!(walk(&cold, 7));
        }
        // What was kept is in memory: nobody asks until somebody waits.
        assert!(!cold.asks());
        two_slow_looks(&cold);
        assert!(!cold.begin_walk(|_| None).leaves);
        assert!(cold.asks());
    }

    #[test]
    fn what_one_walk_gives_up_another_has_not_kept() {
        // The one that keeps its pages ends before the other, or after.
        for ends_first in [true, false] {
            let cold = Cold::default();
            let begin = || cold.begin_walk(|_| Some(false));
            assert!(walk(&cold, 64));
            two_slow_looks(&cold);
            let leaving = begin();
            assert!(leaving.leaves);
            for _ in 0..Cold::WALKS {
                assert!(!walk(&cold, 64));
            }
            let keeping = begin();
            assert!(!keeping.leaves);
            let mut walks = [&keeping, &leaving];
            if !ends_first {
                walks.reverse();
            }
            for walk in walks {
                cold.end_walk(walk, sample());
            }
            let next = begin();
            assert!(!next.leaves);
            cold.end_walk(&next, sample());
            assert!(begin().leaves);
        }
    }

    #[test]
    fn it_is_no_more_where_nobody_waits() {
        let cold = Cold::default();
        assert!(walk(&cold, 64) && !walk(&cold, 64));
        for _ in 0..Cold::PROOF {
            assert!(cold.is_tight());
            cold.note(false, Duration::ZERO, 512);
        }
        assert!(!cold.is_tight() && !cold.is_likely());
        assert!(walk(&cold, 64));
        (0..Cold::PROOF).for_each(|_| cold.note(false, Duration::ZERO, 512));
        // What was kept so long ago tells nothing.
        assert!(walk(&cold, 64));
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
