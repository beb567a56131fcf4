//! The order in which a part's keys are looked up.

use std::ops::Range;

use crate::prefetch::hash_source::SourceTail;

/// The number of keys from which it pays to look them up in the order of the pages, where these come from the disk.
const LARGE: usize = 8192;
/// The same where pages are in memory: there fewer keys gain nothing by their order, and these many little.
const LARGE_IN_MEMORY: usize = 1 << 15;

/// The maximum number of groups of keys that share their highest bits, as a power of two. More groups would be more
/// write streams than a processor's TLB has room for.
pub(crate) const GROUPS_LOG2: u32 = 11;

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
    (keys / 64).max(2).ilog2().min(GROUPS_LOG2)
}

/// Returns the places of the keys, sorted by as many of their highest bits as a few dozen keys share.
fn by_highest_bits(keys: &SourceTail<'_>) -> Vec<u32> {
    // Places take 32 bits: the keys behind would be answered for others.
    assert!(u32::try_from(keys.source.count()).is_ok());
    let bits = group_bits(keys.count());
    let group = |hash: u64| (hash >> (64 - bits)) as usize;
    let mut starts = vec![0_u32; 1 << bits];
    keys.for_each(|_, hash| starts[group(hash)] += 1);
    let mut next = 0;
    for start in &mut starts {
        next += std::mem::replace(start, next);
    }
    let mut places = vec![0; keys.count()];
    keys.for_each(|place, hash| {
        let at = &mut starts[group(hash)];
        places[*at as usize] = place as u32;
        *at += 1;
    });
    // Each group is full: it ends where the next one begins.
    debug_assert_eq!(starts.last(), Some(&(places.len() as u32)));
    places
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
        ) {
            let first = first.index(hashes.len());
            let tail = SourceTail { source: &hashes, first };
            let bits = (tail.count() / 64).max(2).ilog2().min(11);
            let mut twin: Vec<u32> = (first as u32..hashes.len() as u32).collect();
            twin.sort_by_key(|place| hashes[*place as usize] >> (64 - bits));
            prop_assert_eq!(&by_highest_bits(&tail), &twin);
        }
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
