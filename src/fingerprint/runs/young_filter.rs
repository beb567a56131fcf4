//! A filter of the runs above the oldest one. They hold a sixth of the keys or so: with it, a look-up rarely asks them.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::run_set::RunPages;
use crate::config::filter_budget::FilterBudget;
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::sys::Map;
use crate::sys::sync::{AtomicBool, AtomicU64, Ordering};

/// Entries for each look-up after which the filter is made. A look-up that asks the runs costs about as much as reading so
/// many of their entries: making it at most doubles what look-ups have cost.
const ENTRIES_EACH: u64 = 16;
/// A look-up counts once more for each time that it took so long: one that waits for a disk costs as much as reading
/// thousands of entries in order.
const LOOK_TIME: Duration = Duration::from_nanos(512);
/// Of so many look-ups that come alone, the time of one is taken: asking a clock takes a tenth as long as one of them.
const TIMED_EACH: u64 = 16;
/// Bits for each entry, and the fewest that are worth a filter.
const YOUNG_BITS: u64 = 16;
const LEAST_YOUNG_BITS: u64 = 6;

/// The filter, once it is worth its making.
#[derive(Debug)]
pub(crate) struct YoungFilter {
    budget: FilterBudget,
    entries: u64,
    looked: AtomicU64,
    is_begun: AtomicBool,
    /// `None` if there is no memory for it, or a page is not whole.
    made: OnceLock<Option<NegativeFilter>>,
}

impl YoungFilter {
    /// Returns the filter of runs with so many entries, not made yet.
    pub(crate) fn new(budget: FilterBudget, entries: u64) -> Self {
        Self {
            budget,
            entries,
            looked: AtomicU64::new(0),
            is_begun: AtomicBool::new(false),
            made: OnceLock::new(),
        }
    }

    /// Returns the filter if it is there, for so many look-ups. The first caller for which it pays calls `make`; others go on
    /// without it meanwhile.
    #[inline]
    pub(crate) fn get(
        &self,
        looks: usize,
        make: impl FnOnce(&Self) -> Option<NegativeFilter>,
    ) -> Option<&NegativeFilter> {
        if let Some(made) = self.made.get() {
            return made.as_ref();
        }
        let looked = self.looked.fetch_add(looks as u64, Ordering::Relaxed);
        if looked < self.entries / ENTRIES_EACH || self.is_begun.swap(true, Ordering::Relaxed) {
            return None;
        }
        self.made.get_or_init(|| make(self)).as_ref()
    }

    /// Runs look-ups of the runs, so many at once, for which [`get`](Self::get) had no filter, and counts how long they take.
    #[inline]
    pub(crate) fn timed<T>(&self, looks: usize, look: impl FnOnce() -> T) -> T {
        let each = match looks {
            1 => TIMED_EACH,
            _ => 1,
        };
        let is_counted = self.looked.load(Ordering::Relaxed).is_multiple_of(each);
        if !is_counted || self.is_begun.load(Ordering::Relaxed) {
            return look();
        }
        let begun = Instant::now();
        let found = look();
        let counted = begun.elapsed().as_nanos() / LOOK_TIME.as_nanos();
        let counted = u64::try_from(counted).unwrap_or(u64::MAX);
        let counted = counted.saturating_mul(each).min(self.entries);
        self.looked.fetch_add(counted, Ordering::Relaxed);
        found
    }

    /// Returns the filter if it is there.
    pub(crate) fn made(&self) -> Option<&NegativeFilter> {
        self.made.get()?.as_ref()
    }

    /// Reads all entries of runs. Returns `None` without memory, or if a page is not whole: look-ups then find out which.
    #[cold]
    pub(crate) fn read<'r>(
        &self,
        runs: impl Iterator<Item = &'r RunPages>,
        space: FingerprintSpace,
        map: &Map,
    ) -> Option<NegativeFilter> {
        let bytes_for = |bits| self.entries.saturating_mul(bits) / 8;
        let bytes = bytes_for(YOUNG_BITS).min(self.budget.of_young());
        if bytes < bytes_for(LEAST_YOUNG_BITS) {
            return None;
        }
        let filter = NegativeFilter::empty(space, bytes).ok()?;
        for list in runs.flat_map(RunPages::lists) {
            list.for_each_page(map, |fingerprints| {
                filter.add(fingerprints);
                Some(())
            })?;
        }
        Some(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::open_options::OpenOptions;

    const ENTRIES: u64 = 1 << 17;
    /// As many look-ups as make the filter.
    const LOOKS: u32 = (ENTRIES / ENTRIES_EACH) as u32;

    fn filter() -> YoungFilter {
        YoungFilter::new(FilterBudget::of(&OpenOptions::new()), ENTRIES)
    }

    fn is_made_now(filter: &YoungFilter) -> bool {
        let mut is_made = false;
        filter.get(1, |_| {
            is_made = true;
            None
        });
        is_made
    }

    /// Looks as a look-up does that waits for a disk.
    fn wait(time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn it_is_made_after_so_many_look_ups() {
        let filter = filter();
        assert!(!is_made_now(&filter));
        let made = filter.get(LOOKS as usize - 2, |_| unreachable!("too early"));
        assert!(made.is_none() && !is_made_now(&filter));
        assert!(is_made_now(&filter));
        assert!(!is_made_now(&filter), "once");
    }

    #[test]
    fn look_ups_that_take_long_make_it_sooner() {
        let together = filter();
        assert!(!is_made_now(&together));
        together.timed(2, || wait(LOOK_TIME * LOOKS));
        assert!(is_made_now(&together));
        let alone = filter();
        for _ in 0..TIMED_EACH {
            assert!(!is_made_now(&alone));
            let each = LOOK_TIME * LOOKS / TIMED_EACH as u32;
            alone.timed(1, || wait(each));
        }
        assert!(is_made_now(&alone));
    }
}
