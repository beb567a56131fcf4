//! The fences of a segment: the first fingerprint of each page, in pages of their own.

use std::ops::Range;

use super::fault::{SegmentFault, check_entries, check_sealed};
use super::search::last_at_most;
use crate::codec::{put_u64, u64_at};
use crate::page::{Binding, PAGE_BYTES, PAYLOAD_OFFSET};

/// Fences in a page.
pub(crate) const FENCES_IN_PAGE: usize = (PAGE_BYTES - PAYLOAD_OFFSET) / 8;
/// The word of a page where its fences begin.
const FIRST_FENCE: u64 = PAYLOAD_OFFSET as u64 / 8;

/// Returns how many pages the fences of this many pages take.
pub(crate) fn fence_pages(pages: u32) -> u64 {
    u64::from(pages).div_ceil(FENCES_IN_PAGE as u64)
}

/// Returns how many pages of fingerprints lie with their fences in so many pages.
pub(crate) fn pages_with_fences(room: u64) -> u64 {
    let pages = room - room.div_ceil(FENCES_IN_PAGE as u64 + 1);
    assert!(pages + pages.div_ceil(FENCES_IN_PAGE as u64) <= room);
    pages
}

/// Appends the pages of a segment's fences, the first of which gets this number.
pub(crate) fn encode(
    binding: Binding,
    fences: &[u64],
    mut number: u64,
    generation: u64,
    out: &mut Vec<u8>,
) {
    for some in fences.chunks(FENCES_IN_PAGE) {
        let mut page = [0; PAGE_BYTES];
        for (index, fence) in some.iter().enumerate() {
            put_u64(&mut page, PAYLOAD_OFFSET + 8 * index, *fence);
        }
        binding.seal(number, generation, some.len() as u32, &mut page);
        out.extend_from_slice(&page);
        number += 1;
    }
}

/// Checks a page of `count` fences, all of which lie in `range`.
pub(crate) fn check(
    binding: Binding,
    page: &[u8; PAGE_BYTES],
    number: u64,
    generation: u64,
    count: usize,
    range: Range<u64>,
) -> Result<(), SegmentFault> {
    check_sealed(binding, number, generation, page)?;
    check_entries(number, count, 8, page)?;
    let fences = (0..count).map(|index| u64_at(page, PAYLOAD_OFFSET + 8 * index));
    match fences.clone().is_sorted_by(|one, next| one < next)
        && fences.clone().all(|fence| range.contains(&fence))
    {
        true => Ok(()),
        false => Err(SegmentFault::Fences { number }),
    }
}

/// Reads and checks all fences of a segment of `pages` pages, whose range they divide. They lie from the page `first` on, of
/// which and those behind `page` returns the bytes.
pub(crate) fn read(
    binding: Binding,
    pages: u32,
    first: u64,
    generation: u64,
    mut range: Range<u64>,
    page: impl Fn(u64) -> [u8; PAGE_BYTES],
) -> Result<Vec<u64>, SegmentFault> {
    let (begin, pages) = (range.start, pages as usize);
    let mut found = Vec::with_capacity(pages);
    for number in first..first + fence_pages(pages as u32) {
        let bytes = page(number);
        let count = FENCES_IN_PAGE.min(pages - found.len());
        check(binding, &bytes, number, generation, count, range.clone())?;
        let fences = bytes[PAYLOAD_OFFSET..].as_chunks().0.iter().take(count);
        found.extend(fences.map(|fence| u64::from_le_bytes(*fence)));
        // The next page's fences are above the last of this one.
        range.start = found.last().map_or(range.start, |last| last + 1);
    }
    match found.first() == Some(&begin) {
        true => Ok(found),
        false => Err(SegmentFault::Fences { number: first }),
    }
}

/// Returns the page of a segment to which a fingerprint of its range belongs, where `fence` returns the fence of a page and
/// the search begins at `guess`.
#[inline(always)]
pub(crate) fn page_of(fence: impl Fn(u64) -> u64, pages: u64, guess: u64, fingerprint: u64) -> u64 {
    last_at_most(pages, guess, fence, fingerprint)
}

/// Returns the page near which the fingerprint's own lies: fingerprints are spread evenly.
#[cfg(any(test, fuzzing))]
pub(crate) fn likely_page(pages: u32, range: Range<u64>, fingerprint: u64) -> u64 {
    // Below 2^63 a signed number is converted in one step.
    let passed = fingerprint.saturating_sub(range.start) as i64 as f64;
    let share = passed / range.end.saturating_sub(range.start) as i64 as f64;
    ((share * f64::from(pages)) as i64 as u64).min(u64::from(pages.saturating_sub(1)))
}

/// Returns the word of a segment's pages of fences where the fence of a page lies.
#[inline(always)]
pub(crate) fn place(page: u64) -> u64 {
    const WORDS: u64 = PAGE_BYTES as u64 / 8;
    let (passed, index) = (page / FENCES_IN_PAGE as u64, page % FENCES_IN_PAGE as u64);
    passed * WORDS + FIRST_FENCE + index
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::put_u32;
    use crate::page::OCCUPANCY_OFFSET;

    const OWN: Binding = Binding::NONE;

    fn pages(fences: &[u64]) -> Vec<[u8; PAGE_BYTES]> {
        let mut out = Vec::new();
        encode(OWN, fences, 70, 4, &mut out);
        out.as_chunks::<PAGE_BYTES>().0.to_vec()
    }

    proptest! {
        /// The slow twin walks over the list.
        #[test]
        fn a_page_is_found_by_its_fence(
            fences in prop::collection::btree_set(0_u64..1 << 40, 1..1200),
            asked in prop::collection::vec(0_u64..1 << 40, 20),
        ) {
            let fences: Vec<u64> = fences.into_iter().collect();
            let written = pages(&fences);
            prop_assert_eq!(written.len() as u64, fence_pages(fences.len() as u32));
            let word = |page: u64| {
                let place = place(page) as usize;
                u64_at(&written[place / 512], place % 512 * 8)
            };
            let range = fences[0]..1 << 40;
            for one in asked.iter().chain(&fences).filter(|one| range.contains(one)) {
                let twin = fences.iter().rposition(|fence| fence <= one).unwrap();
                let pages = fences.len() as u32;
                let guess = likely_page(pages, range.clone(), *one);
                prop_assert_eq!(page_of(word, pages.into(), guess, *one), twin as u64);
            }
            for (number, (page, some)) in (70..).zip(written.iter().zip(fences.chunks(510))) {
                prop_assert_eq!(check(OWN, page, number, 4, some.len(), range.clone()), Ok(()));
            }
        }
    }

    #[test]
    fn pages_fit_with_their_fences_and_no_more_would() {
        for room in 0..3000 {
            let pages = pages_with_fences(room) as u32;
            assert!(u64::from(pages) + fence_pages(pages) <= room, "{room}");
            let more = u64::from(pages + 1) + fence_pages(pages + 1);
            assert!(more > room, "{room}");
        }
    }

    #[test]
    fn fences_rise_from_page_to_page_and_the_first_is_where_the_range_begins() {
        let fences: Vec<u64> = (0..1100).map(|number| 1000 + number * 10).collect();
        let reported = |fences: &[u64], begin: u64| {
            let written = pages(fences);
            let page = |number| written[(number - 70) as usize];
            read(OWN, fences.len() as u32, 70, 4, begin..20_000, page)
        };
        assert_eq!(reported(&fences, 1000), Ok(fences.clone()));
        assert_eq!(
            reported(&fences, 999),
            Err(SegmentFault::Fences { number: 70 })
        );
        // The last fence of a page or the first of the next: one of them is wrong.
        for (index, fence) in [(509, 6100), (509, 6105), (510, 6090), (1020, 11_190)] {
            let mut wrong = fences.clone();
            wrong[index] = fence;
            let number = 70 + (index as u64 + 1) / 510;
            let expected = Err(SegmentFault::Fences { number });
            assert_eq!(reported(&wrong, 1000), expected, "{index} is {fence}");
        }
    }

    #[test]
    fn every_fault_is_told() {
        let fences: Vec<u64> = (0..600).map(|number| 1000 + number * 10).collect();
        let good = pages(&fences)[1];
        let reported = |harm: &dyn Fn(&mut [u8; PAGE_BYTES])| {
            let mut page = good;
            harm(&mut page);
            OWN.seal(71, 4, u32::from(page[OCCUPANCY_OFFSET]), &mut page);
            check(OWN, &page, 71, 4, 90, 1000..7000)
        };
        assert_eq!(reported(&|_| ()), Ok(()));
        let unsorted = Err(SegmentFault::Fences { number: 71 });
        assert_eq!(reported(&|page| put_u64(page, 16, 6109)), Ok(()));
        assert_eq!(reported(&|page| put_u64(page, 16, 6110)), unsorted);
        assert_eq!(reported(&|page| put_u64(page, 16, 999)), unsorted);
        assert_eq!(reported(&|page| put_u64(page, 16 + 89 * 8, 7000)), unsorted);
        let entries = |got| {
            Err(SegmentFault::Entries {
                number: 71,
                expected: 90,
                got,
            })
        };
        assert_eq!(
            reported(&|page| put_u32(page, OCCUPANCY_OFFSET, 91)),
            entries(91)
        );
        assert_eq!(reported(&|page| page[4095] = 1), entries(90));
        let range = 1000..7000;
        assert_eq!(
            check(OWN, &good, 71, 5, 90, range.clone()),
            Err(SegmentFault::Generation {
                number: 71,
                expected: 5,
                got: 4
            })
        );
        let elsewhere = check(OWN, &good, 72, 4, 90, range.clone());
        assert!(
            matches!(elsewhere, Err(SegmentFault::Checksum { number: 72, .. })),
            "{elsewhere:?}"
        );
        let blank = check(OWN, &[0; PAGE_BYTES], 71, 4, 90, range);
        assert!(
            matches!(blank, Err(SegmentFault::Checksum { got: 0, .. })),
            "{blank:?}"
        );
    }
}
