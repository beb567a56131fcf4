//! What the runs above the oldest one change, range by range.

use crate::error::Result;
use crate::fingerprint::fingerprint_list::{FingerprintList, ListedFile};
use crate::fingerprint::runs::run_directories::RunSegments;
use crate::fingerprint::segment::entry::List;
use crate::fingerprint::segment::merge::{Changes, merge};
use crate::fingerprint::segment::pass::OwnedChanges;
use crate::fingerprint::segment::sorted_run::SortedRun;
use crate::page::ages::Ages;
use crate::sys::simd::dispatch::{self, Cpu, Work};

/// The entries of some runs above the oldest one.
pub(crate) struct YoungChanges<'a> {
    ages: Ages,
    /// The oldest first; of each what came, and what went.
    runs: Vec<[FingerprintList<'a>; 2]>,
}

impl<'a> YoungChanges<'a> {
    /// Begins with fingerprints from `least` on. The oldest of the runs is the first.
    pub(crate) fn new(from: ListedFile<'a>, young: &[RunSegments], least: u64) -> Result<Self> {
        let mut runs = Vec::with_capacity(young.len());
        for run in young {
            let least = least.max(run.begin);
            let open = |list| FingerprintList::open(from, run.list(list), least);
            runs.push([open(List::Came)?, open(List::Went)?]);
        }
        Ok(Self {
            ages: from.ages,
            runs,
        })
    }

    /// Adds their entries below `end` that were not taken before to changes that count more: those of a log.
    pub(crate) fn add_to(&mut self, changes: &mut OwnedChanges, end: u64) -> Result<()> {
        self.combine(changes, end, covered)
    }

    /// Adds their entries below `end` that were not taken before to changes that came after them: what both together change
    /// in the runs below. In a store that forgets, an entry doesn't tell what is below: there it is what counts in the end.
    pub(crate) fn join(&mut self, changes: &mut OwnedChanges, end: u64) -> Result<()> {
        match self.ages.are_any() {
            true => self.combine(changes, end, covered),
            false => self.combine(changes, end, joined),
        }
    }

    /// Combines what each run says with what the younger ones do, and at last with `changes`.
    fn combine(
        &mut self,
        changes: &mut OwnedChanges,
        end: u64,
        both: fn(&OwnedChanges, &OwnedChanges, Ages) -> OwnedChanges,
    ) -> Result<()> {
        let ages = self.ages;
        let either = |below: OwnedChanges, above: OwnedChanges| match (&below, &above) {
            (_, above) if above.is_empty() => below,
            (below, _) if below.is_empty() => above,
            (below, above) => both(below, above, ages),
        };
        let mut below = OwnedChanges::default();
        for [came, went] in &mut self.runs {
            let mut own = OwnedChanges::default();
            came.take_below(end, &mut own.added)?;
            went.take_below(end, &mut own.removed)?;
            below = either(below, own);
        }
        *changes = either(below, std::mem::take(changes));
        Ok(())
    }
}

/// Returns what both say where the younger one counts: whether a fingerprint is there at last.
fn covered(below: &OwnedChanges, above: &OwnedChanges, ages: Ages) -> OwnedChanges {
    OwnedChanges {
        added: over(&below.added, &above.added, &above.removed, ages),
        removed: over(&below.removed, &above.removed, &above.added, ages),
    }
}

/// Returns what both change together. A change that takes another back leaves neither.
fn joined(below: &OwnedChanges, above: &OwnedChanges, ages: Ages) -> OwnedChanges {
    let came = over(&above.added, &[], &below.removed, ages);
    let went = over(&above.removed, &[], &below.added, ages);
    OwnedChanges {
        added: over(&below.added, &came, &above.removed, ages),
        removed: over(&below.removed, &went, &above.added, ages),
    }
}

/// Returns a list with what is added to it and without what is removed.
pub(in crate::fingerprint) fn over(
    list: &[u64],
    added: &[u64],
    removed: &[u64],
    ages: Ages,
) -> Vec<u64> {
    if added.is_empty() && removed.is_empty() {
        return list.to_vec();
    }
    let mut out = SortedRun::default();
    dispatch::run_wide(Over(list, Changes { added, removed }, ages, &mut out));
    out.into_vec()
}

/// Merging, compiled for this processor.
struct Over<'a>(&'a [u64], Changes<'a>, Ages, &'a mut SortedRun);

impl Work for Over<'_> {
    type Output = ();

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) {
        let Over(list, changes, ages, out) = self;
        merge(list, changes, ages, out, cpu);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns what leads from one set to another.
    fn difference(from: &BTreeSet<u64>, to: &BTreeSet<u64>) -> OwnedChanges {
        OwnedChanges {
            added: to.difference(from).copied().collect(),
            removed: from.difference(to).copied().collect(),
        }
    }

    fn lists(changes: OwnedChanges) -> (Vec<u64>, Vec<u64>) {
        (changes.added, changes.removed)
    }

    proptest! {
        #[test]
        fn changes_combine_as_sets_do(
            oldest in prop::collection::btree_set(0_u64..200, 0..150),
            middle in prop::collection::btree_set(0_u64..200, 0..150),
            newest in prop::collection::btree_set(0_u64..200, 0..150),
        ) {
            let (below, above) = (difference(&oldest, &middle), difference(&middle, &newest));
            let both = joined(&below, &above, Ages::NONE);
            prop_assert_eq!(lists(both), lists(difference(&oldest, &newest)));
            // What is there at last, of all that either is about.
            let both = covered(&below, &above, Ages::NONE);
            let about: BTreeSet<u64> = [&below, &above]
                .into_iter()
                .flat_map(|one| one.added.iter().chain(&one.removed))
                .copied()
                .collect();
            let is_there = |there: bool| {
                about.iter().copied().filter(|one| newest.contains(one) == there).collect()
            };
            prop_assert_eq!(lists(both), (is_there(true), is_there(false)));
        }
    }
}
