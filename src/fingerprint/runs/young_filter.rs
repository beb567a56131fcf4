//! A filter of the runs above the oldest one. They hold a sixth of the keys or so: with it, a look-up rarely asks them.

use std::sync::OnceLock;

use super::run_set::RunPages;
use crate::config::filter_budget::FilterBudget;
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::sys::Map;
use crate::sys::sync::{AtomicBool, AtomicU64, Ordering};

/// Entries for each look-up after which the filter is made. A look-up that asks the runs costs about as much as reading so
/// many of their entries: making it at most doubles what look-ups have cost.
const ENTRIES_EACH: u64 = 16;
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
            list.for_each_page(map, |fingerprints| filter.add(fingerprints))?;
        }
        Some(filter)
    }
}
