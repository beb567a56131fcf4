//! In which steps the keys of a store that forgets came, from some of its pages.
//!
//! Fingerprints are spread evenly, so pages at even distances tell about all of them: 1,024 pages have a million keys or so,
//! and are wrong by less than a percent of a step's share.

use std::collections::BTreeMap;

use crate::fingerprint::page::{age_base, decode, first};
use crate::fingerprint::runs::run_set::RunSet;
use crate::fingerprint::segment::fault::check_sealed;
use crate::fingerprint::segment::pages::SegmentPages;
use crate::page::{Binding, PAGE_BYTES, PAGE_WORDS};
use crate::sys::Map;
use crate::sys::simd::dispatch::Baseline;

/// How many keys came in each step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StepsOfKeys {
    pub(crate) keys: BTreeMap<u64, u64>,
    /// Whether all pages were read.
    pub(crate) are_all: bool,
}

impl RunSet {
    /// Counts the keys that came, by their steps, from at most so many pages, at least one. A key that came again may be
    /// counted twice, and what went is not left out. Returns `None` if the pages may be of later segments by now.
    pub(crate) fn steps_of_keys(&self, binding: Binding, most: u64) -> Option<StepsOfKeys> {
        let came = || self.came();
        let pages: u64 = came().map(|(list, _)| list.pages()).sum();
        let distance = pages.div_ceil(most).max(1);
        let mut sample = Sample {
            binding,
            age_bits: self.space().age_bits(),
            keys: BTreeMap::new(),
            numbers: Vec::new(),
        };
        // Not the first ones, which may be those of a segment alone.
        let mut next = distance / 2;
        let mut before = 0;
        for (list, begin) in came() {
            for segment in list.segments() {
                let behind = before + u64::from(segment.pages);
                while next < behind {
                    let number = segment.first_page + (next - before);
                    sample.take((self.map(), number), segment.generation, begin);
                    next += distance;
                }
                before = behind;
            }
        }
        if self.is_stale() {
            return None;
        }
        let scaled = sample.keys.into_iter();
        Some(StepsOfKeys {
            keys: scaled.map(|(step, keys)| (step, keys * distance)).collect(),
            are_all: distance == 1,
        })
    }

    /// Returns the lists of what came, each with the first number that counts there.
    fn came(&self) -> impl Iterator<Item = (&SegmentPages, u64)> {
        self.begun_runs().map(|(run, begin)| (&run.came, begin))
    }
}

struct Sample {
    binding: Binding,
    age_bits: u32,
    keys: BTreeMap<u64, u64>,
    numbers: Vec<u64>,
}

impl Sample {
    /// Counts the numbers of a page from `begin` on. A page that is not whole has none; `verify` tells.
    fn take(&mut self, (map, number): (&Map, u64), generation: u64, begin: u64) {
        let mut page = [0; PAGE_BYTES];
        map.copy(number as usize * PAGE_WORDS, &mut page);
        self.numbers.clear();
        let is_whole = check_sealed(self.binding, number, generation, &page).is_ok()
            && decode(&page, first(&page), &mut self.numbers, Baseline).is_some();
        let Some(base) = age_base(&page, self.age_bits).filter(|_| is_whole) else {
            return;
        };
        let mask = (1 << self.age_bits) - 1;
        for one in self.numbers.iter().filter(|one| **one >= begin) {
            let step = base.saturating_sub(one & mask);
            *self.keys.entry(step).or_default() += 1;
        }
    }
}
