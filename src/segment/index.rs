//! From a hash to its segment, in a step or two.

use super::entry::Segment;
use crate::page::space::Space;

/// Entries of the index for each segment, at least.
const ENTRIES_FOR_EACH: usize = 4;
/// The most entries: a segment has 4 MiB, so larger stores have other worries.
const MOST_INDEX_BITS: u32 = 24;

/// Where the search for a hash's segment begins, by the highest bits of the hash.
#[derive(Debug)]
pub(crate) struct SegmentIndex {
    /// The bits of a hash that are not looked at.
    shift: u32,
    /// The segment of the first hash with these highest bits.
    begins: Vec<u32>,
    /// The first fingerprint of each segment, and one that no fingerprint reaches.
    firsts: Vec<u64>,
}

impl SegmentIndex {
    pub(crate) fn of(segments: &[Segment], space: Space) -> Self {
        let wanted = (segments.len() * ENTRIES_FOR_EACH).next_power_of_two();
        let bits = wanted.ilog2().clamp(1, MOST_INDEX_BITS);
        let shift = u64::BITS - bits;
        let mut firsts: Vec<u64> = segments.iter().map(|segment| segment.first).collect();
        firsts.push(u64::MAX);
        let mut segment = 0;
        let begins = (0..1_u64 << bits).map(|highest| {
            let fingerprint = space.fingerprint(highest << shift);
            while firsts[segment + 1..]
                .first()
                .is_some_and(|next| *next <= fingerprint)
            {
                segment += 1;
            }
            segment as u32
        });
        Self {
            shift,
            begins: begins.collect(),
            firsts,
        }
    }

    /// Returns the place of the segment to which a hash with this fingerprint belongs. There is at least one segment.
    #[inline(always)]
    pub(crate) fn segment_of(&self, hash: u64, fingerprint: u64) -> usize {
        let mut segment = self.begins[(hash >> self.shift) as usize] as usize;
        // Mostly there is nothing to pass, and never is it known before.
        segment += usize::from(self.firsts[segment + 1] <= fingerprint);
        while self
            .firsts
            .get(segment + 1)
            .is_some_and(|next| *next <= fingerprint)
        {
            segment += 1;
        }
        segment
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The slow twin walks over the segments.
        #[test]
        fn a_hash_is_in_the_last_segment_that_begins_before(
            firsts in prop::collection::btree_set(1_u64..1 << 20, 0..300),
            crowd in prop::collection::btree_set(1_u64..2000, 0..100),
            hashes in prop::collection::vec(any::<u64>(), 50),
            bits in 20_u32..63,
        ) {
            let space = Space::new((1 << bits) + 7).unwrap();
            let all = std::iter::once(0).chain(&firsts | &crowd);
            let segments: Vec<Segment> = all
                .map(|first| Segment { first, first_page: 32, keys: 1, generation: 1, pages: 1 })
                .collect();
            let index = SegmentIndex::of(&segments, space);
            let ends = segments.iter().map(|segment| *space.hashes(segment.first..segment.first + 1).start());
            for hash in hashes.into_iter().chain(ends).chain([0, u64::MAX]) {
                let fingerprint = space.fingerprint(hash);
                let twin = segments.iter().rposition(|segment| segment.first <= fingerprint).unwrap();
                prop_assert_eq!(index.segment_of(hash, fingerprint), twin);
            }
        }
    }
}
