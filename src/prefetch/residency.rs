//! Tracks whether look-ups wait for the disk.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::prefetch::{BATCH, BehindWalk};
use crate::sys::lock;

/// Judges whether look-ups wait for the disk by how long they take, and by how often the system read a page for them. If they
/// do, pages are requested ahead, so the disk can work on many at once. If the pages are in memory, requests would only cost
/// time.
///
/// Threads may disturb each other here: everything is an estimate, except whether memory is tight, which the system
/// reports.
#[derive(Debug, Default)]
pub(crate) struct Residency {
    /// The number of further batches for which pages are requested. Then one batch is tried without requests.
    left: AtomicU32,
    /// The initial value of the last countdown of `left`; 0 after a proof that pages are in memory.
    times: AtomicU32,
    /// The number of consecutive batches without requests that waited, and the number of those that did not.
    slow: AtomicU32,
    fast: AtomicU32,
    /// Held by the one thread whose part may be as large as memory allows.
    sweep: Mutex<()>,
    /// Whether pages that one walk had kept were gone by the next one: memory has no room for them.
    tight: AtomicBool,
    last_walk: Mutex<LastWalk>,
    /// The number of walks since memory was last found to be tight.
    walks: AtomicU32,
}

/// How many pages the system has read from the disk for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PagesRead {
    /// Nobody has counted: nothing was suspected yet.
    Uncounted,
    /// The system can't tell.
    Unknown,
    Known(u64),
}

impl PagesRead {
    /// Compares what the system had counted before and after, if it counts.
    pub(crate) fn between(before: Option<u64>, after: Option<u64>) -> Self {
        let read = before.zip(after);
        read.map_or(Self::Unknown, |(before, after)| {
            Self::Known(after.saturating_sub(before))
        })
    }
}

/// What the last walk has kept in memory.
#[derive(Debug, Default)]
struct LastWalk {
    /// The file offsets of some of its pages.
    sample: Vec<u64>,
    /// The number of walks that drop the pages they pass: those in progress, and all that have begun.
    dropping: u32,
    begun: u64,
}

/// A walk over the pages in order.
#[derive(Debug)]
pub(crate) enum CountedWalk {
    /// The walk drops the pages that it passes from memory.
    Drops,
    /// The walk keeps them.
    Keeps {
        /// How many dropping walks had begun before it; `None` if one was in progress.
        before: Option<u64>,
    },
}

impl CountedWalk {
    pub(crate) fn passed(&self) -> BehindWalk {
        match self {
            Self::Drops => BehindWalk::Dropped,
            Self::Keeps { .. } => BehindWalk::Kept,
        }
    }
}

impl Residency {
    /// If one key takes longer than this, the look-up may have waited for the disk. Preemption by the system looks the same,
    /// so it takes two slow batches in a row.
    const SLOW: Duration = Duration::from_micros(4);
    /// The second of them must also have read at least one page for this many keys, where the system can tell. Mapping pages
    /// that are in memory takes as long, as after a store was opened or merged.
    const READ_EACH: usize = 128;
    /// Or any page, if it was slower than slow by this factor: a disk with a moving arm.
    const VERY_SLOW: u32 = 8;
    /// For how many batches pages are requested at first, and at most once that has proved right repeatedly.
    const TIMES: u32 = 256;
    const MOST_TIMES: u32 = 1 << 14;
    /// This many batches that do not wait prove that pages are in memory.
    const PROOF: u32 = 64;
    /// After this many walks over the pages in order, one keeps its pages to see whether they stay.
    const WALKS: u32 = 8;
    /// Memory is tight if one in this many of the kept pages is gone. A small share suffices: the pages that go first
    /// are those that the next walk reaches first, and so on to its end.
    const GONE: usize = 8;

    /// Returns whether to request the next batch's pages.
    pub(crate) fn asks(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Returns whether pages had to come from the disk recently.
    pub(crate) fn is_likely(&self) -> bool {
        self.times.load(Ordering::Relaxed) > 0
    }

    /// Returns whether to drop pages from memory once they are passed. Slow look-ups alone do not prove that memory is
    /// tight: if each walk dropped what it had read, look-ups would stay slow even in memory that has room for
    /// everything.
    pub(crate) fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }

    /// Begins a walk over the pages in order, during which pages may be requested.
    pub(crate) fn begin_walk(&self, is_cached: impl Fn(u64) -> Option<bool>) -> CountedWalk {
        let mut last = lock(&self.last_walk);
        self.judge(&std::mem::take(&mut last.sample), is_cached);
        if self.is_tight() {
            last.dropping += 1;
            last.begun += 1;
            return CountedWalk::Drops;
        }
        CountedWalk::Keeps {
            before: (last.dropping == 0).then_some(last.begun),
        }
    }

    /// Judges memory by whether pages that a walk kept are still there. If they are, no pages are requested until a
    /// look-up waits again.
    fn judge(&self, kept: &[u64], is_cached: impl Fn(u64) -> Option<bool>) {
        let known: Vec<bool> = kept.iter().filter_map(|at| is_cached(*at)).collect();
        if known.is_empty() {
            return;
        }
        let gone = known.iter().filter(|is_there| !**is_there).count();
        if gone == 0 {
            // Walks that always ask ahead prove nothing by their time.
            self.times.store(0, Ordering::Relaxed);
        }
        if gone * Self::GONE >= known.len() {
            self.tight.store(true, Ordering::Relaxed);
            self.walks.store(0, Ordering::Relaxed);
        } else {
            self.left.store(0, Ordering::Relaxed);
        }
    }

    /// Ends a walk. `sample` has the file offsets of some pages that it requested.
    pub(crate) fn end_walk(&self, walk: &CountedWalk, sample: Vec<u64>) {
        let mut last = lock(&self.last_walk);
        match walk {
            CountedWalk::Drops => {
                assert!(last.dropping > 0, "a walk ends once");
                last.dropping -= 1;
                if self.walks.fetch_add(1, Ordering::Relaxed) + 1 >= Self::WALKS {
                    self.tight.store(false, Ordering::Relaxed);
                }
            }
            // Next to a walk that drops pages, what this one kept would prove nothing.
            CountedWalk::Keeps { before } if *before == Some(last.begun) => last.sample = sample,
            CountedWalk::Keeps { .. } => {}
        }
    }

    /// Returns the permission to look up a part as large as memory allows, which pays if it saves walks over pages that
    /// come from the disk. One thread at a time has it.
    pub(crate) fn sweep(&self) -> Option<MutexGuard<'_, ()>> {
        if !self.is_likely() {
            return None;
        }
        self.sweep.try_lock().ok()
    }

    /// Returns whether to count what the next batch reads from the disk.
    pub(crate) fn suspects(&self) -> bool {
        self.slow.load(Ordering::Relaxed) > 0
    }

    /// Learns from how long the look-up of a batch took. `asked` says whether its pages were requested ahead.
    pub(crate) fn note(&self, asked: bool, taken: Duration, keys: usize, read: PagesRead) {
        if keys < BATCH {
            return;
        }
        let (load, store) = (
            |word: &AtomicU32| word.load(Ordering::Relaxed),
            |word: &AtomicU32, value| word.store(value, Ordering::Relaxed),
        );
        if asked {
            store(&self.left, load(&self.left).saturating_sub(1));
        } else if taken > Self::SLOW * keys as u32 && !self.is_disproved(taken, keys, read) {
            let before = load(&self.slow);
            if before == 0 || read == PagesRead::Uncounted {
                return store(&self.slow, 1);
            }
            store(&self.slow, 0);
            let times = (load(&self.times) * 2).clamp(Self::TIMES, Self::MOST_TIMES);
            store(&self.times, times);
            store(&self.left, times);
            store(&self.fast, 0);
        } else {
            let fast = load(&self.fast).saturating_add(1);
            store(&self.slow, 0);
            // If each thread stored to the same cache line at each batch, that would cost them time.
            if fast <= Self::PROOF {
                store(&self.fast, fast);
            }
            if fast == Self::PROOF {
                store(&self.times, 0);
                self.tight.store(false, Ordering::Relaxed);
                // By the next walk the pages may be gone for other reasons.
                lock(&self.last_walk).sample.clear();
            }
        }
    }

    /// Returns whether a slow batch has not waited for the disk.
    fn is_disproved(&self, taken: Duration, keys: usize, read: PagesRead) -> bool {
        match read {
            PagesRead::Uncounted | PagesRead::Unknown => false,
            PagesRead::Known(0) => true,
            PagesRead::Known(read) => {
                let is_very_slow = taken > Self::SLOW * Self::VERY_SLOW * keys as u32;
                read < (keys / Self::READ_EACH) as u64 && !is_very_slow
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_micros(4 * 513);
    const UNKNOWN: PagesRead = PagesRead::Unknown;

    /// Returns the number of batches for which pages are requested.
    fn cold_for(cold: &Residency) -> u32 {
        let mut times = 0;
        while cold.asks() {
            cold.note(true, SLOW, 512, UNKNOWN);
            times += 1;
        }
        times
    }

    #[test]
    fn pages_are_asked_for_after_two_slow_looks_and_not_for_ever() {
        let cold = Residency::default();
        cold.note(false, SLOW, 512, UNKNOWN);
        assert!(!cold.asks());
        cold.note(false, Duration::ZERO, 512, UNKNOWN);
        cold.note(false, SLOW, 512, UNKNOWN);
        assert!(!cold.asks() && !cold.is_likely());
        cold.note(false, SLOW, 512, UNKNOWN);
        assert!(cold.is_likely());
        assert_eq!(cold_for(&cold), Residency::TIMES);
    }

    #[test]
    fn slow_looks_at_pages_that_are_in_memory_prove_that_they_are() {
        let cold = Residency::default();
        cold.note(false, SLOW, 512, PagesRead::Uncounted);
        for read in [0, 3] {
            assert!(cold.suspects());
            cold.note(false, SLOW, 512, PagesRead::Known(read));
            assert!(!cold.suspects() && !cold.asks() && !cold.is_likely());
            cold.note(false, SLOW, 512, PagesRead::Uncounted);
        }
        // Another thread may have begun before anything was suspected: it has not counted.
        cold.note(false, SLOW, 512, PagesRead::Uncounted);
        assert!(cold.suspects() && !cold.asks());
        cold.note(false, SLOW, 512, PagesRead::Known(4));
        assert!(cold.asks() && cold.is_likely());
        // What was slow and read nothing counts as fast.
        while cold.asks() {
            cold.note(true, SLOW, 512, PagesRead::Uncounted);
        }
        for _ in 0..Residency::PROOF {
            assert!(cold.is_likely());
            cold.note(false, SLOW, 512, PagesRead::Known(0));
        }
        assert!(!cold.is_likely());
    }

    #[test]
    fn few_reads_that_take_very_long_are_those_of_a_disk() {
        let cold = Residency::default();
        cold.note(false, SLOW, 512, PagesRead::Uncounted);
        cold.note(false, SLOW * 9, 512, PagesRead::Known(1));
        assert!(cold.asks());
    }

    #[test]
    fn what_was_right_is_kept_for_longer_until_it_is_proven_wrong() {
        let cold = Residency::default();
        for times in [1, 2, 4].map(|times| times * Residency::TIMES) {
            // The pages requested ahead are there.
            cold.note(false, Duration::ZERO, 512, UNKNOWN);
            cold.note(false, SLOW, 512, UNKNOWN);
            cold.note(false, SLOW, 512, UNKNOWN);
            assert_eq!(cold_for(&cold), times);
            assert!(cold.is_likely());
        }
        for _ in 0..Residency::PROOF {
            assert!(cold.is_likely());
            cold.note(false, Duration::ZERO, 512, UNKNOWN);
        }
        assert!(!cold.is_likely());
        cold.note(false, SLOW, 512, UNKNOWN);
        cold.note(false, SLOW, 512, UNKNOWN);
        assert_eq!(cold_for(&cold), Residency::TIMES);
    }

    fn two_slow_looks(cold: &Residency) {
        for _ in 0..2 {
            cold.note(false, SLOW, 512, UNKNOWN);
        }
        assert!(cold.asks());
    }

    fn sample() -> Vec<u64> {
        (0..64).collect()
    }

    /// Walks over the pages once, with `gone` of the kept ones gone at the start. Returns whether it keeps its own.
    fn walk(cold: &Residency, gone: u64) -> bool {
        two_slow_looks(cold);
        let walk = cold.begin_walk(|at| Some(at >= gone));
        cold.end_walk(&walk, sample());
        walk.passed() == BehindWalk::Kept
    }

    #[test]
    fn memory_is_tight_if_pages_that_were_kept_are_gone() {
        let cold = Residency::default();
        assert!(walk(&cold, 64));
        for _ in 0..3 {
            for _ in 0..Residency::WALKS {
                assert!(!walk(&cold, 8));
                assert!(cold.asks());
            }
            // One of them keeps its pages again.
            assert!(walk(&cold, 64));
        }
    }

    #[test]
    fn it_is_not_if_most_of_them_stay_or_none_can_tell() {
        let cold = Residency::default();
        for _ in 0..3 {
            assert!(walk(&cold, 7));
        }
        // What was kept is in memory: no pages are requested until a look-up waits.
        assert!(!cold.asks());
        two_slow_looks(&cold);
        assert_eq!(cold.begin_walk(|_| None).passed(), BehindWalk::Kept);
        assert!(cold.asks());
    }

    #[test]
    fn what_one_walk_gives_up_another_has_not_kept() {
        // The walk that keeps its pages ends before the other, or after it.
        for ends_first in [true, false] {
            let cold = Residency::default();
            let begin = || cold.begin_walk(|_| Some(false));
            assert!(walk(&cold, 64));
            two_slow_looks(&cold);
            let leaving = begin();
            assert_eq!(leaving.passed(), BehindWalk::Dropped);
            for _ in 0..Residency::WALKS {
                assert!(!walk(&cold, 64));
            }
            let keeping = begin();
            assert_eq!(keeping.passed(), BehindWalk::Kept);
            let mut walks = [&keeping, &leaving];
            if !ends_first {
                walks.reverse();
            }
            for walk in walks {
                cold.end_walk(walk, sample());
            }
            let next = begin();
            assert_eq!(next.passed(), BehindWalk::Kept);
            cold.end_walk(&next, sample());
            assert_eq!(begin().passed(), BehindWalk::Dropped);
        }
    }

    #[test]
    fn it_is_no_more_where_nobody_waits() {
        let cold = Residency::default();
        assert!(walk(&cold, 64) && !walk(&cold, 64));
        for _ in 0..Residency::PROOF {
            assert!(cold.is_tight());
            cold.note(false, Duration::ZERO, 512, UNKNOWN);
        }
        assert!(!cold.is_tight() && !cold.is_likely());
        assert!(walk(&cold, 64));
        (0..Residency::PROOF).for_each(|_| cold.note(false, Duration::ZERO, 512, UNKNOWN));
        // What was kept so long ago proves nothing.
        assert!(walk(&cold, 64));
    }

    #[test]
    fn one_thread_at_a_time_may_sweep() {
        let cold = Residency::default();
        assert!(cold.sweep().is_none());
        cold.note(false, SLOW, 512, UNKNOWN);
        cold.note(false, SLOW, 512, UNKNOWN);
        let held = cold.sweep();
        assert!(held.is_some() && cold.sweep().is_none());
        drop(held);
        assert!(cold.sweep().is_some());
    }
}
