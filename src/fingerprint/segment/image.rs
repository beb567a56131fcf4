//! A segment as it lies in the file.

use std::ops::Range;

use super::entry::Segment;
use super::fault::{SegmentFault, check_sealed};
use super::fences::{self, place};
use super::merge::Changes;
use super::packer::Packer;
use super::unplaced::UnplacedSegment;
use crate::codec::u64_at;
use crate::fingerprint::page::read::{FingerprintFault, ReadWhole};
use crate::fingerprint::page::{self, MOST_IN_PAGE};
use crate::page::ages::Ages;
#[cfg(any(test, fuzzing))]
use crate::page::ages::Remembered;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES, PAGE_WORDS};
use crate::sys::simd::dispatch::{Baseline, run_wide};

/// All pages of a segment, read from its extent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image<'a> {
    /// The store that the file belongs to.
    binding: Binding,
    segment: Segment,
    /// Where its range ends.
    end: u64,
    pages: &'a [[u8; PAGE_BYTES]],
    fence_pages: &'a [[u8; PAGE_BYTES]],
}

impl<'a> Image<'a> {
    /// Returns `None` if the bytes are more or fewer than the segment's extent has.
    pub(crate) fn of(
        binding: Binding,
        segment: Segment,
        end: u64,
        bytes: &'a [u8],
    ) -> Option<Self> {
        let (pages, rest) = bytes.as_chunks();
        let extent = segment.extent();
        if !rest.is_empty() || pages.len() as u64 != extent.end - extent.start {
            return None;
        }
        let (pages, fence_pages) = pages.split_at(segment.pages as usize);
        Some(Self {
            binding,
            segment,
            end,
            pages,
            fence_pages,
        })
    }

    /// Checks every byte.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn check(&self) -> Result<(), SegmentFault> {
        self.check_fences()?;
        let mut keys = 0;
        for index in 0..self.pages.len() {
            keys += u64::from(self.check_page(index)?);
        }
        self.check_keys(keys)
    }

    /// Checks every byte of a page, counted within the segment, whose fences were checked before. Returns how many
    /// fingerprints it has.
    pub(crate) fn check_page(&self, index: usize) -> Result<u32, SegmentFault> {
        let count = self.check_header(index)?;
        let list = page::check(&self.pages[index], self.range(index));
        let number = self.number(index);
        list.map_err(|fault| SegmentFault::List { number, fault })?;
        Ok(count)
    }

    /// Checks that the ages of a page have so many bits.
    pub(crate) fn check_ages(&self, index: usize, bits: u32) -> Result<(), SegmentFault> {
        let (number, fault) = (self.number(index), FingerprintFault::Ages);
        let base = page::age_base(&self.pages[index], bits);
        base.map(drop).ok_or(SegmentFault::List { number, fault })
    }

    /// Returns whether every page is what was written.
    pub(crate) fn is_whole(&self) -> bool {
        let counts = || (0..self.pages.len()).map(|page| self.check_page(page));
        self.check_fences().is_ok()
            && counts()
                .sum::<Result<u32, _>>()
                .is_ok_and(|keys| self.check_keys(keys.into()).is_ok())
    }

    /// Returns the fingerprints of all pages that are whole, in order, whatever the fences say, but for those that are too
    /// old.
    pub(crate) fn salvage(&self, ages: Ages) -> Vec<u64> {
        let (mut found, mut own): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut least = self.segment.first;
        for (index, page) in self.pages.iter().enumerate() {
            own.clear();
            let is_listed = self.check_header(index).is_ok()
                && page::decode(page, page::first(page), &mut own, Baseline).is_some();
            let rises = own.is_sorted_by(|one, next| one < next)
                && own.first().is_none_or(|first| *first >= least)
                && own.last().is_none_or(|last| *last < self.end);
            if is_listed
                && rises
                && let Some(base) = page::age_base(page, ages.bits())
            {
                least = own.last().map_or(least, |last| last + 1);
                ages.bring(base, &mut own);
                found.append(&mut own);
            }
        }
        found
    }

    /// Returns whether a page has a fingerprint that is too old, or is not whole, in a store that forgets.
    pub(crate) fn has_forgotten(&self, ages: Ages) -> bool {
        if !ages.are_any() {
            return false;
        }
        let mut own = Vec::new();
        let mut has = |index: usize| {
            own.clear();
            let listed = self.list_page(index, &mut own);
            let (Ok(()), Some(base)) = (listed, page::age_base(&self.pages[index], ages.bits()))
            else {
                return true;
            };
            let count = own.len();
            ages.bring(base, &mut own);
            // After the time was set back, a page may be of a later step than all keys that come.
            own.len() < count || base > ages.base()
        };
        (0..self.pages.len()).any(&mut has)
    }

    /// Appends the fingerprints of a page, in order, whose fences were checked before.
    pub(crate) fn list_page(&self, index: usize, out: &mut Vec<u64>) -> Result<(), SegmentFault> {
        let (page, range) = self.sealed_page(index)?;
        let number = self.number(index);
        let fault = FingerprintFault::Group;
        let whole = run_wide(ReadWhole(page, range, out));
        whole
            .then_some(())
            .ok_or(SegmentFault::List { number, fault })
    }

    /// Counts the ages of all numbers of a page as `ages` does, and drops those that are too old.
    pub(crate) fn bring(
        &self,
        index: usize,
        ages: Ages,
        numbers: &mut Vec<u64>,
    ) -> Result<(), SegmentFault> {
        let (number, fault) = (self.number(index), FingerprintFault::Ages);
        let base = page::age_base(&self.pages[index], ages.bits());
        let base = base.ok_or(SegmentFault::List { number, fault })?;
        ages.bring(base, numbers);
        Ok(())
    }

    /// Returns a page and its range, with which it begins, once its header and CRC are checked.
    fn sealed_page(
        &self,
        index: usize,
    ) -> Result<(&'a [u8; PAGE_BYTES], Range<u64>), SegmentFault> {
        self.check_header(index)?;
        let (page, range, number) = (&self.pages[index], self.range(index), self.number(index));
        let (expected, got) = (range.start, page::first(page));
        let fault = FingerprintFault::First { expected, got };
        match expected == got {
            true => Ok((page, range)),
            false => Err(SegmentFault::List { number, fault }),
        }
    }

    /// Returns the fingerprints of all pages, in order; `None` if one of them is not whole.
    pub(crate) fn list(&self) -> Option<Vec<u64>> {
        self.check_fences().ok()?;
        let mut list = Vec::new();
        for index in 0..self.pages.len() {
            self.list_page(index, &mut list).ok()?;
        }
        Some(list)
    }

    /// Returns some of the pages, counted within the segment, to be placed elsewhere.
    pub(crate) fn part(&self, pages: Range<usize>) -> UnplacedSegment {
        let fences = pages.clone().map(|index| self.fence(index)).collect();
        UnplacedSegment::of(self.pages[pages].as_flattened().to_vec(), fences)
    }

    /// Checks the headers and CRCs of all pages, those of fences too.
    pub(crate) fn check_headers(&self) -> Result<(), SegmentFault> {
        self.check_fences()?;
        (0..self.pages.len()).try_for_each(|index| self.check_header(index).map(drop))
    }

    /// Checks the headers and CRCs of all pages of fingerprints, and that these are as many as a page has room for and the
    /// segment's entry says: a CRC does not make a count true.
    pub(crate) fn check_counts(&self) -> Result<(), SegmentFault> {
        let mut keys = 0;
        for index in 0..self.pages.len() {
            let count = self.check_header(index)?;
            if count as usize > MOST_IN_PAGE {
                let (number, fault) = (self.number(index), FingerprintFault::Count);
                return Err(SegmentFault::List { number, fault });
            }
            keys += u64::from(count);
        }
        self.check_keys(keys)
    }

    /// Checks a page's header and CRC alone.
    pub(crate) fn check_header(&self, index: usize) -> Result<u32, SegmentFault> {
        check_sealed(
            self.binding,
            self.number(index),
            self.segment.generation,
            &self.pages[index],
        )
    }

    /// Checks how many fingerprints its pages have in all.
    pub(crate) fn check_keys(&self, keys: u64) -> Result<(), SegmentFault> {
        match keys == self.segment.keys {
            true => Ok(()),
            false => Err(SegmentFault::Keys {
                expected: self.segment.keys,
                got: keys,
            }),
        }
    }

    fn number(&self, index: usize) -> u64 {
        self.segment.first_page + index as u64
    }

    /// Checks the fences, without which no page can be found.
    pub(crate) fn check_fences(&self) -> Result<(), SegmentFault> {
        let range = self.segment.first..self.end;
        let first = self.segment.first_fence_page();
        let page = |number| self.fence_pages[(number - first) as usize];
        let Segment {
            pages, generation, ..
        } = self.segment;
        fences::read(self.binding, pages, first, generation, range, page).map(drop)
    }

    /// Checks that no page begins between the numbers of a fingerprint. The fences were checked before.
    pub(crate) fn check_first_numbers(&self, space: FingerprintSpace) -> Result<(), SegmentFault> {
        let mut fences = (0..self.pages.len()).map(|index| self.fence(index));
        match fences.all(|fence| space.first_of(fence) == fence) {
            true => Ok(()),
            false => Err(SegmentFault::Fences {
                number: self.segment.first_fence_page(),
            }),
        }
    }

    fn fence(&self, index: usize) -> u64 {
        let place = place(index as u64) as usize;
        u64_at(
            &self.fence_pages[place / PAGE_WORDS],
            place % PAGE_WORDS * 8,
        )
    }

    /// Returns the range of a page.
    pub(super) fn range(&self, index: usize) -> Range<u64> {
        let end = match index + 1 < self.pages.len() {
            true => self.fence(index + 1),
            false => self.end,
        };
        self.fence(index)..end
    }

    /// Returns whether the segment holds a fingerprint of its range. It was checked before.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn contains(&self, fingerprint: u64) -> bool {
        let fence_word = |page: u64| {
            let place = place(page) as usize;
            u64_at(
                &self.fence_pages[place / PAGE_WORDS],
                place % PAGE_WORDS * 8,
            )
        };
        let range = self.segment.first..self.end;
        let guess = fences::likely_page(self.segment.pages, range, fingerprint);
        let page =
            fences::page_of(fence_word, self.segment.pages.into(), guess, fingerprint) as usize;
        let page = &self.pages[page];
        let word = |index: usize| u64_at(page, index % PAGE_WORDS * 8);
        match fingerprint.checked_sub(page::first(page)) {
            Some(offset) => page::contains(word, offset, Remembered::ALL),
            None => false,
        }
    }

    /// Checks a page and packs its fingerprints with the changes of its range, which it takes off. Returns how many it has.
    /// The fences were checked before.
    pub(crate) fn merge(
        &self,
        index: usize,
        changes: &mut Changes<'_>,
        packer: &mut Packer,
    ) -> Result<u32, SegmentFault> {
        let (page, range) = self.sealed_page(index)?;
        let own = changes.take_below(range.end);
        debug_assert!(own.added.first().is_none_or(|one| *one >= range.start));
        let (number, fault) = (self.number(index), FingerprintFault::Group);
        let packed = packer.put_page(page, range, own);
        let count = packed.ok_or(SegmentFault::List { number, fault })?;
        Ok(count as u32)
    }
}
