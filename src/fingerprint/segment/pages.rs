//! The segments of one list as a reader has them: mapped, and each page checked at its first use.

use super::directory::range;
use super::entry::Segment;
use super::fault::{SegmentFault, check_sealed};
use super::fences;
use super::image::Image;
use super::lookup::{FilePages, Lookup};
use super::page_index::PageIndex;
use crate::fingerprint::page::{self, read::FingerprintFault};
use crate::page::ages::Remembered;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES, PAGE_WORDS};
use crate::sys::simd::lanes::Lanes;
use crate::sys::{Map, Parts};

/// The segments of one list of a run, and what is known of their pages. Each look-up brings the map of the file.
#[derive(Debug)]
pub(crate) struct SegmentPages {
    segments: Vec<Segment>,
    index: PageIndex,
    space: FingerprintSpace,
    binding: Binding,
}

impl SegmentPages {
    /// Returns segments of one list that lie before `end_page`. Pages that `held` has checked are not checked again.
    pub(crate) fn new(
        segments: Vec<Segment>,
        end_page: u64,
        (space, binding): (FingerprintSpace, Binding),
        held: Option<&Self>,
    ) -> std::io::Result<Self> {
        let pages = Self {
            index: PageIndex::of(&segments, end_page)?,
            segments,
            space,
            binding,
        };
        if let Some(held) = held {
            pages.take_over(held);
        }
        Ok(pages)
    }

    /// Marks the pages that are those of an older directory as checked, if they were. Pages that this handle has just
    /// written are checked like any others: they may come back from the disk.
    fn take_over(&self, held: &Self) {
        for (index, segment) in self.segments.iter().enumerate() {
            let place = held
                .segments
                .binary_search_by_key(&segment.first, |old| old.first);
            if let Ok(place) = place
                && held.segments[place] == *segment
            {
                let range = range(&self.segments, index, self.space);
                self.index
                    .take_over(segment, range, self.space, &held.index);
            }
        }
    }

    /// Returns the segments, in order.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns how many pages of fingerprints there are.
    pub(crate) fn pages(&self) -> u64 {
        let pages = self.segments.iter().map(|segment| u64::from(segment.pages));
        pages.sum()
    }

    /// Returns what looks keys up that came in a step or later, in a map of the file, which covers all segments.
    pub(crate) fn lookup_since<'a>(
        &'a self,
        map: &'a Map,
        since: u64,
    ) -> Lookup<'a, MappedPages<'a>> {
        Lookup {
            remembered: Remembered::since(self.space.age_bits(), since),
            ..self.lookup(map)
        }
    }

    /// Returns what looks keys up, whenever they came.
    pub(crate) fn lookup<'a>(&'a self, map: &'a Map) -> Lookup<'a, MappedPages<'a>> {
        Lookup {
            segments: &self.segments,
            index: &self.index,
            space: self.space,
            pages: MappedPages {
                segments: self,
                map,
                pages: map.parts(),
            },
            remembered: Remembered::since(self.space.age_bits(), 0),
        }
    }

    /// Calls `each` with the fingerprints of each page, in order. Returns `None` without memory, once a page is not whole, or
    /// once `each` does.
    pub(crate) fn for_each_page(
        &self,
        map: &Map,
        mut each: impl FnMut(&[u64]) -> Option<()>,
    ) -> Option<()> {
        let (mut bytes, mut fingerprints) = (Vec::new(), Vec::new());
        let will_need = |segment: Option<&Segment>| {
            if let Some(pages) = segment.map(Segment::extent) {
                let words = (pages.end - pages.start) as usize * PAGE_WORDS;
                map.will_need(pages.start as usize * PAGE_WORDS, words);
            }
        };
        will_need(self.segments.first());
        for (index, segment) in self.segments.iter().enumerate() {
            let extent = segment.extent();
            let length = (extent.end - extent.start) as usize * PAGE_BYTES;
            bytes
                .try_reserve_exact(length.saturating_sub(bytes.len()))
                .ok()?;
            bytes.resize(length, 0);
            // The disk reads the next one meanwhile.
            will_need(self.segments.get(index + 1));
            map.copy(extent.start as usize * PAGE_WORDS, &mut bytes);
            let end = range(&self.segments, index, self.space).end;
            let image = Image::of(self.binding, *segment, end, &bytes)?;
            image.check_fences().ok()?;
            for page in 0..segment.pages as usize {
                fingerprints.clear();
                image.list_page(page, &mut fingerprints).ok()?;
                each(&fingerprints)?;
            }
        }
        Some(())
    }

    /// Reads and checks all fences of a segment.
    fn fences(&self, index: usize, map: &Map) -> Result<Vec<u64>, SegmentFault> {
        let segment = &self.segments[index];
        let range = range(&self.segments, index, self.space);
        let first = segment.first_fence_page();
        let page = |number| copy(map, number);
        let Segment {
            pages, generation, ..
        } = *segment;
        let fences = fences::read(self.binding, pages, first, generation, range, page)?;
        match fences
            .iter()
            .all(|fence| self.space.first_of(*fence) == *fence)
        {
            true => Ok(fences),
            false => Err(SegmentFault::Fences { number: first }),
        }
    }

    /// Checks the header and the CRC of a page whose range begins with a fence. Returns whether its front is short.
    fn check_list(
        &self,
        index: usize,
        (number, fence): (u64, u64),
        map: &Map,
    ) -> Result<bool, SegmentFault> {
        let bytes = copy(map, number);
        check_sealed(
            self.binding,
            number,
            self.segments[index].generation,
            &bytes,
        )?;
        let got = page::first(&bytes);
        if got != fence {
            let expected = fence;
            let fault = FingerprintFault::First { expected, got };
            return Err(SegmentFault::List { number, fault });
        }
        if page::age_base(&bytes, self.space.age_bits()).is_none() {
            let fault = FingerprintFault::Ages;
            return Err(SegmentFault::List { number, fault });
        }
        Ok(page::has_short_front(&bytes))
    }
}

fn copy(map: &Map, page: u64) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    map.copy(page as usize * PAGE_WORDS, &mut bytes);
    bytes
}

/// What look-ups read of the segments.
#[derive(Clone, Copy)]
pub(crate) struct MappedPages<'a> {
    segments: &'a SegmentPages,
    map: &'a Map,
    pages: Parts<'a, PAGE_WORDS>,
}

impl FilePages for MappedPages<'_> {
    #[inline(always)]
    fn word<V: Lanes>(self, page: V, index: V) -> V {
        self.pages.gather(page, index)
    }

    #[inline(always)]
    fn bytes<V: Lanes>(self, page: V, byte: V) -> V {
        self.pages.gather_bytes(page, byte)
    }

    #[inline(always)]
    fn prefetch<V: Lanes>(self, page: V, index: V) {
        self.pages.prefetch(page, index);
    }

    #[cold]
    fn fences(self, segment: usize) -> Result<Vec<u64>, SegmentFault> {
        self.segments.fences(segment, self.map)
    }

    fn check_list(self, segment: usize, number: u64, fence: u64) -> Result<bool, SegmentFault> {
        self.segments.check_list(segment, (number, fence), self.map)
    }
}
