//! Old fingerprints with new ones, and without those that are removed.

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
#[inline(always)]
pub(crate) fn merge(old: &[u64], changes: Changes<'_>, out: &mut Vec<u64>) {
    let begin = out.len();
    unite(old, changes.added, out);
    if !changes.removed.is_empty() {
        subtract(changes.removed, out, begin);
    }
}

/// Old fingerprints that are compared and copied at once: about as many lie between two new ones.
const RUN: usize = 8;

/// Appends all that is in one list or the other, once each.
#[inline(always)]
fn unite(old: &[u64], added: &[u64], out: &mut Vec<u64>) {
    let begin = out.len();
    out.resize(begin + old.len() + added.len(), 0);
    let room = &mut out[begin..];
    let (mut at, mut count) = (0, 0);
    for other in added {
        // A run is copied whole, and what comes next overwrites those that are not below. There is room, since all of
        // them are still to come.
        while let Some(run) = old[at..].first_chunk::<RUN>() {
            let below = run
                .iter()
                .map(|one| usize::from(one < other))
                .sum::<usize>();
            room[count..][..RUN].copy_from_slice(run);
            (at, count) = (at + below, count + below);
            if below < RUN {
                break;
            }
        }
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
    out.truncate(begin + count + rest.len());
}

/// Takes the fingerprints of a list out of those from `begin` on.
fn subtract(removed: &[u64], out: &mut Vec<u64>, begin: usize) {
    let mut removed = removed.iter().peekable();
    let mut kept = begin;
    for at in begin..out.len() {
        let one = out[at];
        while removed.next_if(|other| **other < one).is_some() {}
        if removed.peek() != Some(&&one) {
            out[kept] = one;
            kept += 1;
        }
    }
    out.truncate(kept);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

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
            before in prop::collection::vec(any::<u64>(), 0..3),
        ) {
            let removed: BTreeSet<u64> = removed.difference(&added).copied().collect();
            let twin = old.union(&added).filter(|one| !removed.contains(one)).copied();
            let twin: Vec<u64> = before.iter().copied().chain(twin).collect();
            let mut out = before;
            let (added, removed) = (sorted(&added), sorted(&removed));
            let changes = Changes { added: &added, removed: &removed };
            merge(&sorted(&old), changes, &mut out);
            prop_assert_eq!(&out, &twin);
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
