//! A segment as the directory names it.

use std::ops::Range;

use super::fault::SegmentFault;
use super::fences::fence_pages;
use crate::codec::{Decoder, Encoder};
use crate::file::directory_ref::TARGET_PAGES;
use crate::file::layout::{FIRST_PAGE, MAX_COUNTER, PAGE_LIMIT};
use crate::fingerprint::page::MOST_IN_PAGE;
use crate::page::{Binding, PAGE_BYTES, occupancy};

/// The most pages of fingerprints that a segment may have.
pub(crate) const MOST_SEGMENT_PAGES: u32 = 2 * TARGET_PAGES as u32;
/// A packer cuts what is left into pieces of half as many pages again at most.
const _: () = assert!(TARGET_PAGES + TARGET_PAGES / 2 <= MOST_SEGMENT_PAGES as usize);
/// Bytes that a segment takes in the directory.
pub(crate) const SEGMENT_BYTES: usize = 40;

/// What the fingerprints of a segment say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum List {
    /// They are in the set, and in no run below.
    Came,
    /// They are not in the set, but in the runs below. The oldest run has none of these.
    Went,
}

impl List {
    fn number(self) -> u32 {
        match self {
            List::Came => 0,
            List::Went => 1,
        }
    }

    fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(List::Came),
            1 => Some(List::Went),
            _ => None,
        }
    }
}

/// The fingerprints of a range, and where they lie: pages of fingerprints, and the pages of their fences behind them.
///
/// The range ends where that of the next segment of its list begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The first fingerprint that it may hold.
    pub(crate) first: u64,
    /// Number of its first page in the file.
    pub(crate) first_page: u64,
    /// The fingerprints in it.
    pub(crate) keys: u64,
    /// The generation of its pages.
    pub(crate) generation: u64,
    /// Pages of fingerprints, at least one.
    pub(crate) pages: u32,
    pub(crate) list: List,
}

impl Segment {
    /// Returns the numbers of its pages, those of the fences too.
    pub(crate) fn extent(&self) -> Range<u64> {
        self.first_page..self.first_page + u64::from(self.pages) + fence_pages(self.pages)
    }

    /// Returns the number of its first page of fences.
    pub(crate) fn first_fence_page(&self) -> u64 {
        self.first_page + u64::from(self.pages)
    }

    /// Returns the entry of the same segment in another place, and seals its pages for there.
    pub(crate) fn moved(&self, binding: Binding, first_page: u64, bytes: &mut [u8]) -> Self {
        let extent = self.extent();
        let room = (extent.end - extent.start) * PAGE_BYTES as u64;
        assert_eq!(bytes.len() as u64, room);
        for (number, page) in (first_page..).zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            binding.seal(number, self.generation, occupancy(page), page);
        }
        Self {
            first_page,
            ..*self
        }
    }

    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        assert!((1..=MOST_SEGMENT_PAGES).contains(&self.pages), "{self:?}");
        assert!(self.first_page >= FIRST_PAGE, "{self:?}");
        assert!(
            self.keys <= u64::from(self.pages) * MOST_IN_PAGE as u64,
            "{self:?}"
        );
        assert!(self.generation > 0, "{self:?}");
        out.u64(self.first)
            .u64(self.first_page)
            .u64(self.keys)
            .u64(self.generation)
            .u32(self.pages)
            .u32(self.list.number());
    }

    /// Decodes an entry whose pages lie before `end_page`; `None` at the end of the bytes.
    pub(crate) fn decode(
        input: &mut Decoder<'_>,
        end_page: u64,
    ) -> Option<Result<Self, SegmentFault>> {
        let mut segment = Self {
            first: input.u64()?,
            first_page: input.u64()?,
            keys: input.u64()?,
            generation: input.u64()?,
            pages: input.u32()?,
            list: List::Came,
        };
        let number = input.u32()?;
        let checked = segment.check(end_page);
        Some(checked.and_then(|()| match List::from_number(number) {
            Some(list) => {
                segment.list = list;
                Ok(segment)
            }
            None => wrong("list", "0 or 1", number.into()),
        }))
    }

    fn check(&self, end_page: u64) -> Result<(), SegmentFault> {
        if !(1..=MOST_SEGMENT_PAGES).contains(&self.pages) {
            return wrong("pages", "1 to 2040", self.pages.into());
        }
        if !(FIRST_PAGE..PAGE_LIMIT).contains(&self.first_page) || self.extent().end > end_page {
            return wrong("first_page", "within the file's pages", self.first_page);
        }
        if self.keys > u64::from(self.pages) * MOST_IN_PAGE as u64 {
            return wrong("keys", "what its pages have room for", self.keys);
        }
        if !(1..=MAX_COUNTER).contains(&self.generation) {
            return wrong("generation", "1 to 2^60", self.generation);
        }
        Ok(())
    }
}

fn wrong<T>(field: &'static str, expected: &'static str, got: u64) -> Result<T, SegmentFault> {
    Err(SegmentFault::Field {
        field,
        expected,
        got,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::put_u64;

    const END: u64 = 10_000;

    fn segment() -> Segment {
        Segment {
            first: 77,
            first_page: 40,
            keys: 1_400_000,
            generation: 5,
            pages: 1021,
            list: List::Went,
        }
    }

    fn bytes(segment: &Segment) -> Vec<u8> {
        let mut bytes = Vec::new();
        segment.encode(&mut Encoder::new(&mut bytes));
        bytes
    }

    fn decoded(bytes: &[u8], end: u64) -> Option<Result<Segment, SegmentFault>> {
        Segment::decode(&mut Decoder::new(bytes), end)
    }

    #[test]
    fn there_and_back() {
        let bytes = bytes(&segment());
        assert_eq!(bytes.len(), SEGMENT_BYTES);
        assert_eq!(decoded(&bytes, END), Some(Ok(segment())));
        assert_eq!(decoded(&bytes[..39], END), None);
        assert_eq!(segment().extent(), 40..40 + 1021 + 3);
    }

    #[test]
    fn every_field_out_of_range_has_its_fault() {
        let limits = [
            (8, 31, "first_page"),
            (8, PAGE_LIMIT, "first_page"),
            (8, u64::MAX, "first_page"),
            (8, END - 1023, "first_page"),
            (16, 1021 * MOST_IN_PAGE as u64 + 1, "keys"),
            (24, 0, "generation"),
            (24, MAX_COUNTER + 1, "generation"),
            (32, 0, "pages"),
            (32, 2041, "pages"),
            (32, 1021 | 2 << 32, "list"),
            (32, 1021 | 1 << 63, "list"),
        ];
        for (place, value, name) in limits {
            let mut bytes = bytes(&segment());
            put_u64(&mut bytes, place, value);
            match decoded(&bytes, END) {
                Some(Err(SegmentFault::Field { field, .. })) => assert_eq!(field, name),
                other => panic!("{name} {value}: {other:?}"),
            }
        }
        let mut last = segment();
        last.first_page = END - 1024;
        assert_eq!(decoded(&bytes(&last), END), Some(Ok(last)));
    }
}
