//! From a hash to its page, in two loads: where the page of a hash's highest bits lies, and the fences from there on.
//!
//! All is in memory: 12 to 16 bytes for each page of the filter, the three-hundredth part. It is filled segment by segment
//! when a segment is first needed.

use std::ops::Range;

use super::entry::Segment;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::sys::simd::lanes::Lanes;
use crate::sys::sync::{AtomicBool, Ordering};
use crate::sys::{Region, prefetch_all};

/// Fences that are read at once: a hash's page is rarely more than two behind that of its highest bits.
const NEAR_FENCES: u64 = 4;
/// A list that has less than this share of the file's pages is spread over it.
const SPARSE_SHARE: u64 = 4;
/// Stands in a fence's word once its page was checked. Fingerprints are below 2^63.
const CHECKED: u64 = 1 << 63;

/// The fences of all segments, and where to begin. The system allocates memory only for the parts in use.
///
/// Each word is 0 until it gets its only value, so it may be read at any time and in any order; [`CHECKED`] comes to it. Of
/// segments whose room is being written again, a word may get any value: no look through them is believed then.
#[derive(Debug)]
pub(crate) struct PageIndex {
    /// The bits of a hash that are not looked at.
    shift: u32,
    /// By the highest bits of a hash: the page of the first hash that has them.
    starts: Region,
    /// By number in the file: a page's fence. Behind the last page of a segment, where its range ends.
    fences: Region,
    /// Whether the directories of some pages that were checked end in a later line than the first.
    has_long_fronts: AtomicBool,
}

/// A page for each lane.
#[derive(Clone, Copy)]
pub(crate) struct FoundPage<V: Lanes> {
    /// The lanes whose page is the right one, and checked. All else is meant of those only.
    pub(crate) is_there: V::Mask,
    pub(crate) page: V,
    pub(crate) fence: V,
    /// From the fence to the next.
    pub(crate) width: V,
}

impl PageIndex {
    /// Returns an index of segments, all of which lie before `end_page`. No fence is known.
    pub(crate) fn of(segments: &[Segment], end_page: u64) -> std::io::Result<Self> {
        let pages = segments.iter().map(|segment| u64::from(segment.pages));
        let pages: u64 = pages.sum();
        // A fence behind the last word would be no page's.
        assert!(segments.iter().all(|one| one.extent().end <= end_page));
        let bits = pages.max(2).ilog2();
        let words = end_page + NEAR_FENCES;
        Ok(Self {
            shift: u64::BITS - bits,
            starts: Region::private(1 << bits)?,
            // Of a run above the oldest one, few pages lie between those of others.
            fences: match pages >= end_page / SPARSE_SHARE {
                true => Region::private(words)?,
                false => Region::sparse(words)?,
            },
            has_long_fronts: AtomicBool::new(false),
        })
    }

    /// Returns the page of the first hash with the same highest bits; 0 if it is not known.
    #[inline(always)]
    pub(crate) fn start<V: Lanes>(&self, hash: V) -> V {
        V::gather(self.starts.words(), hash.shr(V::of(self.shift.into())))
    }

    /// Asks for the fences from a page on.
    #[inline(always)]
    pub(crate) fn prefetch<V: Lanes>(&self, page: V) {
        prefetch_all(self.fences.words(), page);
    }

    /// Finds pages by the fences from `start` on.
    #[inline(always)]
    pub(crate) fn find<V: Lanes>(&self, start: V, fingerprint: V) -> FoundPage<V> {
        let fence_of = |word: V| word & V::of(!CHECKED);
        let words = self.fences.words();
        let first = V::gather(words, start);
        let second = V::gather(words, start + V::of(1));
        let third = V::gather(words, start + V::of(2));
        let fourth = V::gather(words, start + V::of(3));
        let is_second = !fingerprint.is_below(fence_of(second));
        let is_third = is_second & !fingerprint.is_below(fence_of(third));
        let own = third.where_or(is_third, second.where_or(is_second, first));
        let next = fourth.where_or(is_third, third.where_or(is_second, second));
        let passed = V::of(2).where_or(is_third, V::of(1).where_or(is_second, V::of(0)));
        let is_checked = !own.is_below(V::of(CHECKED));
        FoundPage {
            is_there: is_checked & fingerprint.is_below(fence_of(next)),
            page: start + passed,
            fence: fence_of(own),
            width: fence_of(next) - fence_of(own),
        }
    }

    fn word(&self, page: u64) -> u64 {
        self.fences.words()[page as usize].load(Ordering::Relaxed)
    }

    /// Returns the fence of a page, or 0 if it is not known.
    pub(crate) fn fence(&self, page: u64) -> u64 {
        self.word(page) & !CHECKED
    }

    pub(crate) fn is_checked(&self, page: u64) -> bool {
        self.word(page) & CHECKED != 0
    }

    /// Returns whether the fences of a segment are there.
    pub(crate) fn is_loaded(&self, segment: &Segment) -> bool {
        let end = &self.fences.words()[segment.first_fence_page() as usize];
        end.load(Ordering::Acquire) != 0
    }

    /// Keeps the fences of a segment, one for each of its pages. Several threads may do so.
    pub(crate) fn load(
        &self,
        segment: &Segment,
        range: Range<u64>,
        fences: &[u64],
        space: FingerprintSpace,
    ) {
        let pages = segment.first_page..segment.first_fence_page();
        // A page whose fence stays 0 would be passed over, and its keys not found.
        assert_eq!(fences.len(), segment.pages as usize);
        debug_assert!(fences.iter().all(|fence| fence & CHECKED == 0));
        for (page, fence) in pages.zip(fences) {
            // Another thread may have checked the page before.
            self.fences.words()[page as usize].fetch_or(*fence, Ordering::Relaxed);
        }
        self.set_loaded(segment, range, space);
    }

    /// Records that all fences of a segment are there, and where its hashes begin.
    fn set_loaded(&self, segment: &Segment, range: Range<u64>, space: FingerprintSpace) {
        self.set_starts(segment, range.clone(), space);
        // A fingerprint can't be above the greatest, so it may be behind all others.
        let end = range.end.min(!CHECKED);
        let word = &self.fences.words()[segment.first_fence_page() as usize];
        word.store(end, Ordering::Release);
    }

    fn set_starts(&self, segment: &Segment, range: Range<u64>, space: FingerprintSpace) {
        let least = *space.hashes(range.clone()).start();
        let first = least.div_ceil(1 << self.shift) as usize;
        let mut page = segment.first_page;
        let starts = self.starts.words().iter().enumerate().skip(first);
        for (highest, start) in starts {
            let fingerprint = space.fingerprint((highest as u64) << self.shift);
            if fingerprint >= range.end {
                break;
            }
            while page + 1 < segment.first_fence_page() && self.fence(page + 1) <= fingerprint {
                page += 1;
            }
            start.store(page, Ordering::Relaxed);
        }
    }

    /// Records that a page, whose fence is there, was checked.
    pub(crate) fn set_checked(&self, page: u64, has_short_front: bool) {
        if !has_short_front {
            self.has_long_fronts.store(true, Ordering::Relaxed);
        }
        self.fences.words()[page as usize].fetch_or(CHECKED, Ordering::Relaxed);
    }

    /// Returns whether to ask for the second line of pages as well. Affects only speed.
    #[inline(always)]
    pub(crate) fn has_long_fronts(&self) -> bool {
        self.has_long_fronts.load(Ordering::Relaxed)
    }

    /// Takes over what another index knows of a segment that both have.
    pub(crate) fn take_over(
        &self,
        segment: &Segment,
        range: Range<u64>,
        space: FingerprintSpace,
        other: &Self,
    ) {
        if !other.is_loaded(segment) {
            return;
        }
        if other.has_long_fronts() {
            self.has_long_fronts.store(true, Ordering::Relaxed);
        }
        for page in segment.first_page..segment.first_fence_page() {
            self.fences.words()[page as usize].store(other.word(page), Ordering::Relaxed);
        }
        self.set_loaded(segment, range, space);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::fingerprint::segment::directory;
    use crate::fingerprint::segment::entry::List;
    use crate::sys::simd::lanes::{Mask, Single};

    /// Segments of one list of fences, the first of which is 0. Their extents lie the other way round, with gaps.
    fn segments(fences: &[u64], pages_in_each: usize) -> (Vec<Segment>, u64) {
        let mut end_page = 32;
        let mut segments: Vec<Segment> = Vec::new();
        for some in fences.chunks(pages_in_each).rev() {
            let segment = Segment {
                first: some[0],
                first_page: end_page,
                keys: 1,
                generation: 1,
                pages: some.len() as u32,
                list: List::Came,
            };
            end_page = segment.extent().end + segments.len() as u64 % 2;
            segments.push(segment);
        }
        segments.reverse();
        (segments, end_page)
    }

    /// What is asked of an index of these fences.
    struct Asked<'a> {
        fences: &'a [u64],
        pages_in_each: usize,
        segments: Vec<Segment>,
        space: FingerprintSpace,
        index: PageIndex,
    }

    impl<'a> Asked<'a> {
        fn of(fences: &'a [u64], pages_in_each: usize, space: FingerprintSpace) -> Self {
            let (segments, end_page) = segments(fences, pages_in_each);
            let index = PageIndex::of(&segments, end_page).unwrap();
            Self {
                fences,
                pages_in_each,
                segments,
                space,
                index,
            }
        }

        fn load(&self, segment: usize, index: &PageIndex) {
            let range = directory::range(&self.segments, segment, self.space);
            let own = self.fences.chunks(self.pages_in_each).nth(segment).unwrap();
            index.load(&self.segments[segment], range, own, self.space);
        }

        /// The slow twin walks over all fences: the segment, the page, its fence and the next.
        fn twin(&self, fingerprint: u64) -> (usize, u64, u64, u64) {
            let place = self
                .fences
                .iter()
                .rposition(|fence| *fence <= fingerprint)
                .unwrap();
            let (segment, page) = (place / self.pages_in_each, place % self.pages_in_each);
            let next = self
                .fences
                .get(place + 1)
                .copied()
                .unwrap_or(self.space.count().min(!CHECKED));
            let page = self.segments[segment].first_page + page as u64;
            (segment, page, self.fences[place], next)
        }

        fn found(&self, index: &PageIndex, hash: u64) -> Option<FoundPage<Single>> {
            let fingerprint = Single::of(self.space.fingerprint(hash));
            let found = index.find(index.start(Single::of(hash)), fingerprint);
            found.is_there.any().then_some(found)
        }
    }

    proptest! {
        /// Whatever is known of segments and pages: a page that is found is the right one, and checked.
        #[test]
        fn only_the_right_page_is_found(
            more in prop::collection::btree_set(1_u64..1 << 20, 0..400),
            crowd in prop::collection::btree_set(1_u64..2000, 0..100),
            pages_in_each in 1_usize..50,
            bits in 20_u32..=63,
            known in any::<u64>(),
            hashes in prop::collection::vec(any::<u64>(), 100),
        ) {
            let space = FingerprintSpace::new(if bits == 63 { 1 << 63 } else { (1 << bits) + 7 }).unwrap();
            let fences: BTreeSet<u64> = &(&more | &crowd) | &BTreeSet::from([0]);
            let fences = Vec::from_iter(fences);
            let asked = Asked::of(&fences, pages_in_each, space);
            let is_known = |number: usize| known >> (number * 7 % 64) & 1 != 0;
            for (number, segment) in asked.segments.iter().enumerate() {
                prop_assert!(!asked.index.is_loaded(segment));
                if is_known(number) {
                    asked.load(number, &asked.index);
                    prop_assert!(asked.index.is_loaded(segment));
                    let pages = segment.first_page..segment.first_fence_page();
                    pages.filter(|page| page % 3 > 0).for_each(|page| asked.index.set_checked(page, page % 2 > 0));
                    // As a slower thread does.
                    asked.load(number, &asked.index);
                }
            }
            let second = PageIndex::of(&asked.segments, segments(&fences, pages_in_each).1).unwrap();
            for (number, segment) in asked.segments.iter().enumerate() {
                let range = directory::range(&asked.segments, number, space);
                second.take_over(segment, range, space, &asked.index);
            }
            let edges = fences.iter().map(|fence| *space.hashes(*fence..*fence + 1).start());
            let edges = edges.flat_map(|hash| [hash, hash.wrapping_sub(1)]);
            for hash in hashes.into_iter().chain(edges).chain([0, u64::MAX]) {
                let (segment, page, fence, next) = asked.twin(space.fingerprint(hash));
                for index in [&asked.index, &second] {
                    let is_checked = is_known(segment) && page % 3 > 0;
                    prop_assert_eq!(index.is_checked(page), is_checked);
                    prop_assert_eq!(index.fence(page), if is_known(segment) { fence } else { 0 });
                    if let Some(found) = asked.found(index, hash) {
                        prop_assert!(is_checked);
                        let reported = (found.page.lane(0), found.fence.lane(0), found.width.lane(0));
                        prop_assert_eq!(reported, (page, fence, next - fence));
                    }
                }
            }
        }
    }

    /// Pages of an ordinary store, each a little shorter or longer than the others: a look-up has no search.
    #[test]
    fn pages_that_are_spread_evenly_are_found_at_once() {
        let counts = [1, 2, 3, 1000, 1023, 1024, 1500, 2047, 2048];
        // In the largest space a range ends where the highest bit begins.
        for (pages, bits) in counts
            .into_iter()
            .flat_map(|pages| [(pages, 40), (pages, 63)])
        {
            let space = FingerprintSpace::new(1 << bits).unwrap();
            let width = space.count() / pages;
            let uneven = |page: u64| crate::hash::finalise(page) % (width / 8);
            let fences =
                (0..pages).map(|page| page * width + if page > 0 { uneven(page) } else { 0 });
            let fences = Vec::from_iter(fences);
            let asked = Asked::of(&fences, 700, space);
            for (number, segment) in asked.segments.iter().enumerate() {
                asked.load(number, &asked.index);
                let own = segment.first_page..segment.first_fence_page();
                own.for_each(|page| asked.index.set_checked(page, page % 2 > 0));
            }
            let hashes = (0..10_000).map(crate::hash::finalise);
            let found = hashes.filter(|hash| asked.found(&asked.index, *hash).is_some());
            let found = found.count();
            // Where an interval of hashes reaches into the next segment, there is one.
            assert!(
                found > 9950,
                "{pages} pages of {bits} bits: {found} of 10000"
            );
        }
    }
}
