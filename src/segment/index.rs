//! From a hash to its segment, in a step or two.

use super::directory::range;
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
    /// All segments, and one behind them that no fingerprint reaches.
    waypoints: Vec<Waypoint>,
}

/// What a look-up needs to know of a segment, side by side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waypoint {
    first: u64,
    /// Pages for each fingerprint, times 2^64.
    pages_each: u64,
    pub(crate) first_page: u64,
    pub(crate) pages: u64,
}

impl Waypoint {
    const END: Self = Self {
        first: u64::MAX,
        pages_each: 0,
        first_page: 0,
        pages: 0,
    };

    fn of(segments: &[Segment], index: usize, space: Space) -> Self {
        let own = &segments[index];
        let range = range(segments, index, space);
        let width = range.end.saturating_sub(range.start).max(1);
        let pages_each = (u128::from(own.pages) << 64) / u128::from(width);
        Self {
            first: own.first,
            pages_each: u64::try_from(pages_each).unwrap_or(u64::MAX),
            first_page: own.first_page,
            pages: own.pages.into(),
        }
    }

    /// Returns the page near which a fingerprint of the segment lies, counted within the segment: fingerprints are spread
    /// evenly.
    #[inline(always)]
    pub(crate) fn likely_page(&self, fingerprint: u64) -> u64 {
        let passed = fingerprint.wrapping_sub(self.first);
        ((u128::from(passed) * u128::from(self.pages_each)) >> 64) as u64
    }
}

impl SegmentIndex {
    pub(crate) fn of(segments: &[Segment], space: Space) -> Self {
        let wanted = (segments.len() * ENTRIES_FOR_EACH).next_power_of_two();
        let bits = wanted.ilog2().clamp(1, MOST_INDEX_BITS);
        let shift = u64::BITS - bits;
        let waypoints = (0..segments.len()).map(|index| Waypoint::of(segments, index, space));
        let waypoints: Vec<Waypoint> = waypoints.chain([Waypoint::END]).collect();
        let mut segment = 0;
        let begins = (0..1_u64 << bits).map(|highest| {
            let fingerprint = space.fingerprint(highest << shift);
            while waypoints[segment + 1..]
                .first()
                .is_some_and(|next| next.first <= fingerprint)
            {
                segment += 1;
            }
            segment as u32
        });
        Self {
            shift,
            begins: begins.collect(),
            waypoints,
        }
    }

    /// Returns whether there are no segments.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waypoints.len() == 1
    }

    #[inline(always)]
    pub(crate) fn waypoint(&self, segment: usize) -> &Waypoint {
        &self.waypoints[segment]
    }

    /// Returns the place of the segment to which a hash with this fingerprint belongs. There is at least one segment.
    #[inline(always)]
    pub(crate) fn segment_of(&self, hash: u64, fingerprint: u64) -> usize {
        let mut segment = self.begins[(hash >> self.shift) as usize] as usize;
        // Mostly there is nothing to pass, and never is it known before.
        segment += usize::from(self.waypoints[segment + 1].first <= fingerprint);
        while self
            .waypoints
            .get(segment + 1)
            .is_some_and(|next| next.first <= fingerprint)
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
