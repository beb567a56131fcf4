//! The directory: which segments there are, in pages one behind the other.

use std::ops::Range;

use super::entry::{List, SEGMENT_BYTES, Segment};
use super::fault::{SegmentFault, check_entries, check_sealed};
use crate::codec::{Decoder, Encoder};
use crate::file::directory_ref::{SEGMENTS_IN_PAGE, directory_pages};
use crate::file::layout::first_shared;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES, PAYLOAD_OFFSET};

const _: () = assert!(SEGMENTS_IN_PAGE as usize == (PAGE_BYTES - PAYLOAD_OFFSET) / SEGMENT_BYTES);

/// Returns the pages of a directory, the first of which gets this number.
pub(crate) fn encode(
    binding: Binding,
    segments: &[Segment],
    mut number: u64,
    generation: u64,
) -> Vec<u8> {
    assert!(segments.is_sorted_by(|one, next| order(one) < order(next)));
    assert!(segments.iter().all(|one| one.generation <= generation));
    let pages = directory_pages(segments.len() as u64) as usize;
    let mut out = Vec::with_capacity(pages * PAGE_BYTES);
    for some in segments.chunks(SEGMENTS_IN_PAGE as usize) {
        let begin = out.len();
        out.resize(begin + PAYLOAD_OFFSET, 0);
        let mut entries = Encoder::new(&mut out);
        for segment in some {
            segment.encode(&mut entries);
        }
        out.resize(begin + PAGE_BYTES, 0);
        binding.seal(number, generation, some.len() as u32, &mut out[begin..]);
        number += 1;
    }
    assert_eq!(out.len(), pages * PAGE_BYTES);
    out
}

/// Checks a page of a directory with `count` entries, whose segments lie before `end_page`; returns these.
///
/// Whether they follow on those of other pages, [`check`] knows.
pub(crate) fn decode_page(
    binding: Binding,
    page: &[u8; PAGE_BYTES],
    number: u64,
    generation: u64,
    count: usize,
    end_page: u64,
) -> Result<Vec<Segment>, SegmentFault> {
    check_sealed(binding, number, generation, page)?;
    check_entries(number, count, SEGMENT_BYTES, page)?;
    let mut input = Decoder::new(&page[PAYLOAD_OFFSET..]);
    let entries = (0..count).map_while(|_| Segment::decode(&mut input, end_page));
    let segments: Vec<Segment> = entries.collect::<Result<_, _>>()?;
    let newer = segments
        .iter()
        .find(|segment| segment.generation > generation);
    if let Some(segment) = newer {
        return Err(SegmentFault::Field {
            field: "generation",
            expected: "at most the directory's",
            got: segment.generation,
        });
    }
    check_order(&segments).map(|()| segments)
}

/// Checks that the directory of the oldest run covers the space from its begin on, in order, and that no two segments share
/// a page.
pub(crate) fn check(segments: &[Segment], space: FingerprintSpace) -> Result<(), SegmentFault> {
    match segments.iter().find(|segment| segment.list != List::Came) {
        // What went was in a run below.
        Some(segment) => Err(SegmentFault::Field {
            field: "list",
            expected: "0 in the oldest run",
            got: segment.first,
        }),
        None => check_lists(segments, space, 0),
    }
}

/// Checks the directory of a run whose entries count from `begin` on.
pub(crate) fn check_lists(
    segments: &[Segment],
    space: FingerprintSpace,
    begin: u64,
) -> Result<(), SegmentFault> {
    check_order(segments)?;
    for list in segments.chunk_by(|one, next| one.list == next.list) {
        check_ends(list, space, begin)?;
        if let Some(between) = list
            .iter()
            .find(|one| space.first_of(one.first) != one.first)
        {
            return Err(SegmentFault::Field {
                field: "first",
                expected: "the first number of a fingerprint",
                got: between.first,
            });
        }
    }
    check_apart(segments.iter().map(Segment::extent))
}

/// Checks where the first segment of a list begins, and where the last one does.
fn check_ends(list: &[Segment], space: FingerprintSpace, begin: u64) -> Result<(), SegmentFault> {
    let wrong = |expected, got| {
        Err(SegmentFault::Field {
            field: "first",
            expected,
            got,
        })
    };
    match list {
        [front, ..] if front.first > begin && begin == 0 => {
            wrong("0 in the first segment", front.first)
        }
        [front, ..] if front.first > begin => {
            wrong("at most begin in the first segment", front.first)
        }
        [.., last] if last.first >= space.count() => {
            wrong("below the number of fingerprints", last.first)
        }
        _ => Ok(()),
    }
}

/// Checks that no page is in two of these.
pub(crate) fn check_apart(extents: impl Iterator<Item = Range<u64>>) -> Result<(), SegmentFault> {
    match first_shared(extents) {
        Some(number) => Err(SegmentFault::Shared { number }),
        None => Ok(()),
    }
}

fn check_order(segments: &[Segment]) -> Result<(), SegmentFault> {
    let mut pairs = segments.windows(2);
    match pairs.find(|pair| order(&pair[1]) <= order(&pair[0])) {
        Some(pair) if pair[1].list < pair[0].list => Err(SegmentFault::Field {
            field: "list",
            expected: "at least that of the one before",
            got: pair[1].first,
        }),
        Some(pair) => Err(SegmentFault::Field {
            field: "first",
            expected: "above the one before",
            got: pair[1].first,
        }),
        None => Ok(()),
    }
}

/// Returns what segments of a directory are ordered by.
fn order(segment: &Segment) -> (List, u64) {
    (segment.list, segment.first)
}

/// Returns the segment of a directory to which a fingerprint belongs; there is at least one. `first` returns the first
/// fingerprint of a segment.
#[cfg(test)]
pub(crate) fn segment_of(
    segments: u64,
    space: FingerprintSpace,
    first: impl Fn(u64) -> u64,
    fingerprint: u64,
) -> u64 {
    let share = fingerprint as i64 as f64 / space.count() as f64;
    let guess = (share * segments as f64) as i64 as u64;
    super::search::last_at_most(segments, guess, first, fingerprint)
}

/// Returns the range of a segment of a directory, which ends where the next one of its list begins.
pub(crate) fn range(segments: &[Segment], index: usize, space: FingerprintSpace) -> Range<u64> {
    let (own, next) = (segments[index], segments.get(index + 1));
    let next = next.filter(|next| next.list == own.list);
    own.first..next.map_or(space.count(), |next| next.first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::put_u64;

    const END_PAGE: u64 = 1 << 40;
    const OWN: Binding = Binding::NONE;

    /// Segments one behind the other, in the file in another order.
    fn segments(firsts: &[u64]) -> Vec<Segment> {
        let count = firsts.len() as u64;
        (0..count)
            .zip(firsts)
            .map(|(index, first)| Segment {
                first: *first,
                first_page: 32 + (index * 7919 % count) * 3000,
                keys: index,
                generation: 1 + index % 6,
                pages: 1 + (index * 31 % 2040) as u32,
                list: List::Came,
            })
            .collect()
    }

    fn decoded(bytes: &[u8], count: usize) -> Result<Vec<Segment>, SegmentFault> {
        let mut found = Vec::new();
        for (number, page) in (500..).zip(bytes.as_chunks().0) {
            let own = (count - found.len()).min(SEGMENTS_IN_PAGE as usize);
            found.extend(decode_page(OWN, page, number, 6, own, END_PAGE)?);
        }
        Ok(found)
    }

    /// Pages that begin between the numbers of one fingerprint are of no store that forgets.
    #[test]
    fn segments_begin_with_the_first_number_of_a_fingerprint() {
        let space = FingerprintSpace::new(1 << 40).unwrap();
        let ages = space.with_ages(4).unwrap();
        assert_eq!(check(&segments(&[0, 160, 320]), ages), Ok(()));
        assert_eq!(check(&segments(&[0, 161, 320]), space), Ok(()));
        let fault = check(&segments(&[0, 161, 320]), ages);
        assert!(matches!(
            fault,
            Err(SegmentFault::Field {
                field: "first",
                got: 161,
                ..
            })
        ));
    }

    proptest! {
        #[test]
        fn a_directory_is_read_as_it_was_written(
            firsts in prop::collection::btree_set(1_u64..1 << 40, 0..350),
            asked in prop::collection::vec(0_u64..1 << 40, 20),
        ) {
            let firsts: Vec<u64> = [0].into_iter().chain(firsts).collect();
            let segments = segments(&firsts);
            let space = FingerprintSpace::new(1 << 40).unwrap();
            prop_assert_eq!(check(&segments, space), Ok(()));
            let bytes = encode(OWN, &segments, 500, 6);
            prop_assert_eq!(bytes.len() as u64 / 4096, directory_pages(segments.len() as u64));
            prop_assert_eq!(decoded(&bytes, segments.len()), Ok(segments.clone()));
            for one in asked.iter().chain(&firsts) {
                let first = |index: u64| segments[index as usize].first;
                let found = segment_of(segments.len() as u64, space, first, *one) as usize;
                let twin = firsts.iter().rposition(|first| first <= one).unwrap();
                prop_assert_eq!(found, twin);
                prop_assert!(range(&segments, found, space).contains(one));
            }
        }
    }

    #[test]
    fn what_is_out_of_order_or_shared_is_told() {
        let space = FingerprintSpace::new(1 << 40).unwrap();
        let good = segments(&[0, 10, 20]);
        let field = |expected, got| {
            Err(SegmentFault::Field {
                field: "first",
                expected,
                got,
            })
        };
        let reported = |harm: &dyn Fn(&mut Vec<Segment>)| {
            let mut segments = good.clone();
            harm(&mut segments);
            check(&segments, space)
        };
        assert_eq!(reported(&|_| ()), Ok(()));
        assert_eq!(check(&[], space), Ok(()));
        assert_eq!(
            reported(&|all| all[0].first = 1),
            field("0 in the first segment", 1)
        );
        let above = field("above the one before", 10);
        assert_eq!(reported(&|all| all[2].first = 10), above);
        let below = field("below the number of fingerprints", 1 << 40);
        assert_eq!(reported(&|all| all[2].first = 1 << 40), below);
        let last = good[2].extent().end - 1;
        let shared = reported(&|all| all[1].first_page = last);
        assert_eq!(shared, Err(SegmentFault::Shared { number: last }));
        assert_eq!(reported(&|all| all[1].first_page = last + 1), Ok(()));
    }

    #[test]
    fn a_page_with_a_wrong_entry_is_told() {
        let good = encode(OWN, &segments(&[0, 10, 20]), 500, 6);
        let reported = |place: usize, value: u64| {
            let mut page = good.clone();
            put_u64(&mut page, PAYLOAD_OFFSET + place, value);
            OWN.seal(500, 6, 3, &mut page);
            decoded(&page, 3)
        };
        assert!(reported(0, 0).is_ok());
        for (place, value, name) in [
            (SEGMENT_BYTES, 0, "first"),
            (SEGMENT_BYTES + 8, END_PAGE, "first_page"),
            (SEGMENT_BYTES + 24, 7, "generation"),
            (SEGMENT_BYTES + 32, 0, "pages"),
        ] {
            match reported(place, value) {
                Err(SegmentFault::Field { field, .. }) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
        let stray = reported(3 * SEGMENT_BYTES, 1);
        let (number, expected, got) = (500, 3, 3);
        assert_eq!(
            stray,
            Err(SegmentFault::Entries {
                number,
                expected,
                got
            })
        );
    }
}
