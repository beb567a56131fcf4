//! Old fingerprints with new ones, and without those that are removed.

use super::sorted_run::SortedRun;
use crate::page::ages::Ages;
use crate::sys::simd::dispatch::Cpu;

/// What a checkpoint does to a set of fingerprints. Both lists rise, and no fingerprint is in both.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Changes<'a> {
    pub(crate) added: &'a [u64],
    pub(crate) removed: &'a [u64],
}

impl<'a> Changes<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Takes off what is below `end`.
    #[inline]
    pub(crate) fn take_below(&mut self, end: u64) -> Changes<'a> {
        Changes {
            added: take_below(&mut self.added, end),
            removed: take_below(&mut self.removed, end),
        }
    }
}

fn take_below<'a>(list: &mut &'a [u64], end: u64) -> &'a [u64] {
    let all = *list;
    // What is below lies at the front, so the search begins there and looks twice as far each time.
    let mut reach = 64;
    while all.get(reach).is_some_and(|one| *one < end) {
        reach *= 2;
    }
    let near = &all[..reach.min(all.len())];
    let (below, rest) = all.split_at(near.partition_point(|one| *one < end));
    *list = rest;
    below
}

/// Appends to `out` the fingerprints of `old`, which rise, with the changes, in order.
///
/// Numbers with ages are counted back from one step. Of those of one fingerprint the youngest stays, and what is removed goes
/// whatever its age.
#[inline(always)]
pub(crate) fn merge(
    old: &[u64],
    changes: Changes<'_>,
    ages: Ages,
    out: &mut SortedRun,
    cpu: impl Cpu,
) {
    debug_assert!(old.is_sorted() && changes.added.is_sorted() && changes.removed.is_sorted());
    let room = out.room(old.len() + changes.added.len());
    let mut count = unite(old, changes.added, room, cpu);
    if ages.are_any() {
        count = ages.keep_youngest(&mut room[..count]);
    }
    debug_assert!(room[..count].is_sorted_by(|one, next| one < next));
    if !changes.removed.is_empty() {
        count = subtract(changes.removed, ages, &mut room[..count]);
    }
    out.extend(count);
}

/// Old fingerprints that are compared and copied at once: about as many lie between two new ones.
const RUN: usize = 8;

/// Puts all that is in one list or the other into `room`, once each, and returns how many there are. Both lists have
/// numbers below 2^63. There is room for all of both.
#[inline(always)]
fn unite(old: &[u64], added: &[u64], room: &mut [u64], cpu: impl Cpu) -> usize {
    // Two halves at once: each step waits for the one before. (The places of four no longer fit in registers.)
    let (old, late_old) = old.split_at(old.len() / 2);
    let middle = late_old
        .first()
        .map_or(0, |middle| added.partition_point(|one| one < middle));
    let (added, late_added) = added.split_at(middle);
    let late_begin = old.len() + added.len();
    let (early_room, late_room) = room.split_at_mut(late_begin);
    let mut early = Union::of(old, added, early_room);
    let mut late = Union::of(late_old, late_added, late_room);
    while early.step(cpu) & late.step(cpu) {}
    let (count, more) = (early.finish(cpu), late.finish(cpu));
    // Only if both lists had some.
    if count < late_begin {
        room.copy_within(late_begin..late_begin + more, count);
    }
    count + more
}

/// Returns how many of a run are below a number, and how many are not above it.
#[inline(always)]
fn count_below(run: &[u64; RUN], other: u64) -> (u32, u32) {
    // Signed, since processors compare many of these at once.
    let other = other as i64;
    let below = run.map(|one| u64::from((one as i64) < other));
    let passed = run.map(|one| u64::from((one as i64) <= other));
    let [below, passed] = [below, passed].map(|counted| counted.iter().sum::<u64>() as u32);
    (below, passed)
}

/// The union of two lists on its way.
struct Union<'a> {
    old: &'a [u64],
    added: &'a [u64],
    /// As long as both lists.
    room: &'a mut [u64],
    /// How many of each have been taken and put.
    at: usize,
    next: usize,
    count: usize,
}

impl<'a> Union<'a> {
    #[inline(always)]
    fn of(old: &'a [u64], added: &'a [u64], room: &'a mut [u64]) -> Self {
        Self {
            old,
            added,
            room,
            at: 0,
            next: 0,
            count: 0,
        }
    }

    /// Takes the old ones of a run that are below the next new one, and that one if it is below the run's end. Returns
    /// `false`, without having done anything, if there is no whole run or no new one.
    ///
    /// No branch depends on how they lie.
    #[inline(always)]
    fn step(&mut self, cpu: impl Cpu) -> bool {
        let run = self.old[self.at..].first_chunk::<RUN>();
        let (Some(run), Some(other)) = (run, self.added.get(self.next)) else {
            return false;
        };
        let counted = cpu.count_below(run, *other);
        let (below, passed) = counted.unwrap_or_else(|| count_below(run, *other));
        let (below, passed) = (below as usize, passed as usize);
        let has_other = usize::from(below < RUN);
        // What comes next overwrites those that are not below. There is room, since all of them are still to come.
        let room = &mut self.room[self.count..][..=RUN];
        room[..RUN].copy_from_slice(run);
        room[below] = *other;
        self.at += passed;
        self.next += has_other;
        self.count += below + has_other;
        true
    }

    /// Takes all that is left, and returns how many there are.
    #[inline(always)]
    fn finish(mut self, cpu: impl Cpu) -> usize {
        while self.step(cpu) {}
        let Self {
            old,
            added,
            room,
            mut at,
            next,
            mut count,
        } = self;
        for other in &added[next..] {
            while let Some(one) = old.get(at).filter(|one| *one < other) {
                room[count] = *one;
                (at, count) = (at + 1, count + 1);
            }
            at += usize::from(old.get(at) == Some(other));
            room[count] = *other;
            count += 1;
        }
        let rest = &old[at..];
        room[count..][..rest.len()].copy_from_slice(rest);
        count + rest.len()
    }
}

/// Takes the fingerprints of a list out of others, whatever the ages of both, and returns how many are left.
fn subtract(removed: &[u64], ages: Ages, out: &mut [u64]) -> usize {
    debug_assert!(out.is_sorted());
    let mut removed = removed.iter().peekable();
    let mut kept = 0;
    for at in 0..out.len() {
        let one = out[at];
        let first = ages.first_of(one);
        while removed
            .next_if(|other| ages.first_of(**other) < first)
            .is_some()
        {}
        if removed.peek().map(|other| ages.first_of(**other)) != Some(first) {
            out[kept] = one;
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::sys::simd::dispatch::{Baseline, Work, run, run_wide};

    struct Merge<'a>(&'a [u64], Changes<'a>, &'a mut SortedRun);

    impl Work for Merge<'_> {
        type Output = ();

        #[inline(always)]
        fn run<C: Cpu>(self, cpu: C) {
            merge(self.0, self.1, Ages::NONE, self.2, cpu);
        }
    }

    fn list(most: u64) -> impl Strategy<Value = BTreeSet<u64>> {
        prop::collection::btree_set(0..most, 0..400)
    }

    fn sorted(set: &BTreeSet<u64>) -> Vec<u64> {
        set.iter().copied().collect()
    }

    proptest! {
        /// The slow twin is a set.
        #[test]
        fn a_merge_is_that_of_sets(
            (old, added, removed) in (1_u64..2000).prop_flat_map(|most| (list(most), list(most), list(most))),
            base in prop::sample::select(vec![0, (1 << 31) - 1000, (1 << 32) - 1000, (1 << 63) - 2000]),
            before in prop::collection::vec(any::<u64>(), 0..3),
        ) {
            let [old, added, removed] = [old, added, removed]
                .map(|list| list.iter().map(|one| base + one).collect::<BTreeSet<u64>>());
            let removed: BTreeSet<u64> = removed.difference(&added).copied().collect();
            let twin = old.union(&added).filter(|one| !removed.contains(one)).copied();
            let twin: Vec<u64> = before.iter().copied().chain(twin).collect();
            let (added, removed) = (sorted(&added), sorted(&removed));
            let changes = Changes { added: &added, removed: &removed };
            let old = sorted(&old);
            let [mut plain, mut modern, mut wide] = [(); 3].map(|()| {
                let mut out = SortedRun::default();
                out.room(before.len()).copy_from_slice(&before);
                out.extend(before.len());
                out
            });
            Merge(&old, changes, &mut plain).run(Baseline);
            run(Merge(&old, changes, &mut modern));
            run_wide(Merge(&old, changes, &mut wide));
            prop_assert_eq!(plain.as_slice(), &twin);
            prop_assert_eq!(modern.as_slice(), &twin);
            prop_assert_eq!(wide.as_slice(), &twin);
        }

        #[test]
        fn changes_are_taken_off_range_by_range(
            added in list(5000),
            removed in list(5000),
            ends in prop::collection::btree_set(0_u64..6000, 1..20),
        ) {
            let (added, removed) = (sorted(&added), sorted(&removed));
            let mut changes = Changes { added: &added, removed: &removed };
            let mut begin = 0;
            for end in ends {
                let taken = changes.take_below(end);
                for (taken, all) in [(taken.added, &added), (taken.removed, &removed)] {
                    let twin: Vec<u64> = all.iter().copied().filter(|one| (begin..end).contains(one)).collect();
                    prop_assert_eq!(taken, twin);
                }
                begin = end;
            }
            let rest = changes.added.len() + changes.removed.len();
            let twin = added.iter().chain(&removed).filter(|one| **one >= begin).count();
            prop_assert_eq!(rest, twin);
            prop_assert_eq!(changes.is_empty(), twin == 0);
        }
    }
}
