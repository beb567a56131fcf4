//! The order in which a part's keys are looked up.

use std::ops::Range;

use crate::prefetch::hash_source::SourceTail;
use crate::sys::huge_pages;

/// The number of keys from which it pays to look them up in the order of the pages, where these come from the disk.
const LARGE: usize = 8192;
/// The same where pages are in memory: there fewer keys gain nothing by their order, and these many little.
const LARGE_IN_MEMORY: usize = 1 << 15;

/// The maximum number of groups of keys that share their highest bits, as a power of two. More groups would be more
/// write streams than a processor's TLB has room for.
pub(crate) const GROUPS_LOG2: u32 = 11;

/// About how many keys a group has, where the number of groups allows that.
const FEW_KEYS: usize = 64;

/// Groups are sorted by further bits if that divides them by so much, as a power of two: with fewer keys, they and the pages
/// that they are looked for in stay in a processor's second-level cache.
const LEAST_FURTHER: u32 = 8;

/// A group is sorted further if it has at most so many times the keys of the mean group.
const MOST_OF_MEAN: usize = 4;

/// The order in which a part's keys are looked up. A key's turn is its position in that order.
pub(crate) struct LookupOrder<'a> {
    keys: &'a SourceTail<'a>,
    /// The places of the keys in the whole part, turn by turn; `None` keeps the given order.
    places: Option<Vec<u32>>,
}

impl<'a> LookupOrder<'a> {
    /// Determines the order. Few keys keep their order. Many are sorted roughly by their hashes, which is the order of
    /// the pages and of the buffers' buckets.
    pub(crate) fn of(keys: &'a SourceTail<'a>, pages_come_from_disk: bool) -> Self {
        let least = match pages_come_from_disk {
            true => LARGE,
            false => LARGE_IN_MEMORY,
        };
        let places = (keys.count() >= least).then(|| by_highest_bits(keys));
        Self { keys, places }
    }

    /// Returns how many of their highest bits the keys of a group share. In a group they may come in any order.
    pub(crate) fn group_bits(&self) -> u32 {
        group_bits(self.count())
    }

    pub(crate) fn count(&self) -> usize {
        self.keys.count()
    }

    /// Returns whether keys come roughly in the order of the pages.
    pub(crate) fn is_by_page(&self) -> bool {
        self.places.is_some()
    }

    /// Writes the hashes of the keys of these turns to `out`.
    pub(crate) fn hashes(&self, turns: Range<usize>, out: &mut [u64]) {
        debug_assert_eq!(turns.len(), out.len());
        let SourceTail { source, first } = self.keys;
        match &self.places {
            Some(places) => source.hashes_at(&places[turns], out),
            None => source.hashes_from(first + turns.start, out),
        }
    }

    /// Returns the place of this turn's key among the keys that are looked up.
    pub(crate) fn place(&self, turn: usize) -> usize {
        match &self.places {
            Some(places) => places[turn] as usize - self.keys.first,
            None => turn,
        }
    }
}

/// Returns how many of their highest bits the keys of a group share, if there are so many keys.
fn group_bits(keys: usize) -> u32 {
    let bits = (keys / FEW_KEYS).max(2).ilog2();
    match bits.checked_sub(GROUPS_LOG2) {
        Some(further) if further >= LEAST_FURTHER => bits.min(2 * GROUPS_LOG2),
        _ => bits.min(GROUPS_LOG2),
    }
}

/// Returns the places of the keys, sorted by as many of their highest bits as a few dozen keys share.
fn by_highest_bits(keys: &SourceTail<'_>) -> Vec<u32> {
    sorted_by(keys, group_bits(keys.count()))
}

/// Returns the places of the keys, sorted by so many of their highest bits.
fn sorted_by(keys: &SourceTail<'_>, bits: u32) -> Vec<u32> {
    // Places take 32 bits: the keys behind would be answered for others.
    assert!(u32::try_from(keys.source.count()).is_ok());
    let first = bits.min(GROUPS_LOG2);
    let group = |hash: u64| (hash >> (64 - first)) as usize;
    let mut starts = vec![0_u32; 1 << first];
    keys.for_each(|_, hash| starts[group(hash)] += 1);
    begins_of(&mut starts);
    let mut places = huge_pages::filled(0, keys.count());
    keys.for_each(|place, hash| {
        let at = &mut starts[group(hash)];
        places[*at as usize] = place as u32;
        *at += 1;
    });
    // Each group is full: it ends where the next one begins.
    debug_assert_eq!(starts.last(), Some(&(places.len() as u32)));
    if bits > first {
        sort_further(keys, &mut places, &starts, bits - first);
    }
    places
}

/// Sorts the places within each group by the next bits. `ends` has the ends of the groups.
fn sort_further(keys: &SourceTail<'_>, places: &mut [u32], ends: &[u32], bits: u32) {
    let part = |hash: u64| (hash << GROUPS_LOG2 >> (64 - bits)) as usize;
    let most = (places.len() / ends.len()).max(FEW_KEYS) * MOST_OF_MEAN;
    let (mut hashes, mut sorted) = (Vec::new(), Vec::new());
    let mut starts = vec![0_u32; 1 << bits];
    let mut begin = 0;
    for end in ends {
        let group = &mut places[begin..*end as usize];
        begin = *end as usize;
        if group.len() > most {
            // The hashes are a caller's own, and share what others don't: they would take too much memory.
            continue;
        }
        hashes.resize(group.len(), 0);
        keys.source.hashes_at(group, &mut hashes);
        starts.fill(0);
        hashes.iter().for_each(|hash| starts[part(*hash)] += 1);
        begins_of(&mut starts);
        sorted.resize(group.len(), 0);
        for (place, hash) in group.iter().zip(&hashes) {
            let at = &mut starts[part(*hash)];
            sorted[*at as usize] = *place;
            *at += 1;
        }
        group.copy_from_slice(&sorted);
    }
}

/// Replaces the lengths of groups by the places where they begin.
fn begins_of(lengths: &mut [u32]) {
    let mut next = 0;
    for length in lengths {
        next += std::mem::replace(length, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The slow twin sorts by the same bits, and keeps the order of keys that share them.
        #[test]
        fn ordered_keys_are_the_same_keys(
            hashes in prop::collection::vec(any::<u64>(), 1..2000),
            first in any::<prop::sample::Index>(),
            bits in 1..=2 * GROUPS_LOG2,
        ) {
            let first = first.index(hashes.len());
            let tail = SourceTail { source: &hashes, first };
            for bits in [bits, group_bits(tail.count())] {
                let mut twin: Vec<u32> = (first as u32..hashes.len() as u32).collect();
                twin.sort_by_key(|place| hashes[*place as usize] >> (64 - bits));
                prop_assert_eq!(&sorted_by(&tail, bits), &twin);
            }
        }
    }

    #[test]
    fn keys_are_sorted_further_where_that_makes_much_smaller_groups() {
        let keys = |bits: u32| FEW_KEYS << bits;
        for (count, bits) in [
            (keys(5), 5),
            (keys(11), 11),
            (keys(19) - 1, 11),
            (keys(19), 19),
            (keys(22), 22),
            (keys(26), 22),
        ] {
            assert_eq!(group_bits(count), bits, "{count}");
        }
    }

    #[test]
    fn a_group_that_outweighs_the_others_keeps_its_order() {
        // All but the first are in one group, each behind the next by the bits that follow.
        let hashes: Vec<u64> = std::iter::once(0)
            .chain((0..999).map(|key| !(key << 43)))
            .collect();
        let order = sorted_by(&SourceTail::all(&hashes), 2 * GROUPS_LOG2);
        assert!(order.iter().copied().eq(0..1000));
    }

    #[test]
    fn few_keys_keep_their_order_and_more_do_where_pages_are_in_memory() {
        for (keys, from_disk, by_page) in [
            (LARGE - 1, true, false),
            (LARGE, true, true),
            (LARGE, false, false),
            (LARGE_IN_MEMORY - 1, false, false),
            (LARGE_IN_MEMORY, false, true),
        ] {
            let hashes: Vec<u64> = (0..keys as u64).map(|key| key << 49).collect();
            let tail = SourceTail::all(&hashes);
            let order = LookupOrder::of(&tail, from_disk);
            assert_eq!(order.is_by_page(), by_page, "{keys} keys, {from_disk}");
        }
    }
}
