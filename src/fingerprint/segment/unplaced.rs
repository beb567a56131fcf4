//! A segment on its way to the file.

use std::ops::Range;

use super::entry::{List, MOST_SEGMENT_PAGES, Segment};
use super::fences;
use crate::fingerprint::page;
use crate::page::ages::Ages;
use crate::page::{Binding, PAGE_BYTES, occupancy};
use crate::sys::simd::dispatch::Cpu;

/// Pages that are packed and not sealed yet, since nobody knows where they will lie.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnplacedSegment {
    /// Begins with the pages. What lies behind them is anything, and is not cleared before a page is written there: that
    /// took a thirtieth of a checkpoint.
    memory: Vec<u8>,
    /// The first fingerprint of each page's range.
    fences: Vec<u64>,
}

impl UnplacedSegment {
    /// Returns pages that lie elsewhere already, each with its fence.
    pub(super) fn of(pages: Vec<u8>, fences: Vec<u64>) -> Self {
        assert_eq!(pages.len(), fences.len() * PAGE_BYTES);
        Self {
            memory: pages,
            fences,
        }
    }

    /// Returns a draft without pages, with memory for some.
    pub(super) fn within(memory: Vec<u8>) -> Self {
        Self {
            memory,
            fences: Vec::new(),
        }
    }

    /// Returns how many pages of fingerprints there are.
    pub(crate) fn pages(&self) -> usize {
        self.fences.len()
    }

    /// Returns the numbers of pages that it takes in the file.
    pub(crate) fn pages_in_file(&self) -> u64 {
        let pages = self.fences.len() as u32;
        u64::from(pages) + fences::fence_pages(pages)
    }

    /// Returns how many bytes the pages of fingerprints have.
    fn bytes(&self) -> usize {
        self.fences.len() * PAGE_BYTES
    }

    /// Appends a page.
    #[inline(always)]
    pub(super) fn push(&mut self, list: &[u64], range: Range<u64>, ages: Ages, cpu: impl Cpu) {
        // Look-ups find the page by its fence.
        let mut ends = list.first().into_iter().chain(list.last());
        assert!(ends.all(|one| range.contains(one)), "{range:?}");
        assert!(self.fences.last().is_none_or(|last| *last < range.start));
        let begin = self.bytes();
        if self.memory.len() < begin + PAGE_BYTES {
            self.memory.resize(begin + PAGE_BYTES, 0);
        }
        if let Some(page) = self.memory[begin..].first_chunk_mut() {
            self.fences.push(range.start);
            page::encode(list, (range, ages), page, cpu);
        }
    }

    /// Takes the first `target` pages off if there are as many for a segment and as many are left.
    pub(super) fn take_full(&mut self, target: usize) -> Option<Self> {
        (self.pages() >= 2 * target).then(|| self.take(target))
    }

    /// Cuts what is left into segments, of as many pages each as can be, half a target more or less.
    pub(super) fn cut(mut self, target: usize) -> Vec<Self> {
        let pieces = ((self.pages() + target / 2) / target).max(1);
        let mut cut = Vec::with_capacity(pieces);
        for left in (1..=pieces).rev() {
            cut.push(self.take(self.pages().div_ceil(left)));
        }
        assert_eq!(self.pages(), 0, "no segment has these pages");
        cut
    }

    fn take(&mut self, pages: usize) -> Self {
        let rest = Self {
            memory: self.memory[pages * PAGE_BYTES..self.bytes()].to_vec(),
            fences: self.fences.split_off(pages),
        };
        std::mem::replace(self, rest)
    }

    /// Gives it a place in the file of a store: returns its entry, and the bytes of its pages.
    ///
    /// # Panics
    /// If it has no pages, or more than a segment may have; no draft that a packer returns does.
    pub(crate) fn place(
        mut self,
        binding: Binding,
        first_page: u64,
        generation: u64,
    ) -> (Segment, Vec<u8>) {
        let pages = self.fences.len() as u32;
        assert!((1..=MOST_SEGMENT_PAGES).contains(&pages), "{pages} pages");
        // Otherwise a look-up would search another page than the one that has the fingerprint.
        assert!(self.fences.is_sorted_by(|one, next| one < next));
        let mut keys = 0;
        self.memory.truncate(self.bytes());
        for (number, page) in (first_page..).zip(self.memory.chunks_exact_mut(PAGE_BYTES)) {
            let count = occupancy(page);
            binding.seal(number, generation, count, page);
            keys += u64::from(count);
        }
        let segment = Segment {
            first: self.fences[0],
            first_page,
            keys,
            generation,
            pages,
            list: List::Came,
        };
        let number = segment.first_fence_page();
        fences::encode(binding, &self.fences, number, generation, &mut self.memory);
        let extent = segment.extent();
        let room = (extent.end - extent.start) * PAGE_BYTES as u64;
        // Behind its extent lies another segment.
        assert_eq!(self.memory.len() as u64, room);
        (segment, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::directory_ref::TARGET_PAGES;
    use crate::sys::simd::dispatch::Baseline;

    fn draft(pages: usize) -> UnplacedSegment {
        let mut draft = UnplacedSegment::default();
        for page in 0..pages as u64 {
            draft.push(
                &[page * 10 + 3],
                page * 10..page * 10 + 10,
                Ages::NONE,
                Baseline,
            );
        }
        draft
    }

    #[test]
    fn a_draft_is_cut_into_segments_of_much_the_same_size() {
        for pages in (1..2 * TARGET_PAGES)
            .step_by(101)
            .chain([1, 1529, 1530, 2039])
        {
            let cut = draft(pages).cut(TARGET_PAGES);
            let sizes: Vec<_> = cut.iter().map(UnplacedSegment::pages).collect();
            assert_eq!(sizes.iter().sum::<usize>(), pages);
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1, "{pages}: {sizes:?}");
            assert!(*most < TARGET_PAGES * 3 / 2, "{pages}: {sizes:?}");
            assert!(
                sizes.len() == 1 || *least >= TARGET_PAGES * 3 / 4,
                "{pages}: {sizes:?}"
            );
            let whole = draft(pages);
            let pages_of = |draft: &UnplacedSegment| draft.memory[..draft.bytes()].to_vec();
            let joined: Vec<u8> = cut.iter().flat_map(pages_of).collect();
            assert!(joined == whole.memory);
        }
    }

    #[test]
    fn a_full_draft_leaves_a_segment_behind() {
        assert!(
            draft(2 * TARGET_PAGES - 1)
                .take_full(TARGET_PAGES)
                .is_none()
        );
        let mut full = draft(2 * TARGET_PAGES);
        let taken = full.take_full(TARGET_PAGES).unwrap();
        assert_eq!((taken.pages(), full.pages()), (TARGET_PAGES, TARGET_PAGES));
        assert_eq!(full.fences[0], TARGET_PAGES as u64 * 10);
        assert!(full.take_full(TARGET_PAGES).is_none());
    }

    /// What memory held before is not in any page.
    #[test]
    fn a_draft_in_used_memory_is_the_same() {
        for used in [1, PAGE_BYTES, 5 * PAGE_BYTES / 2, 8 * PAGE_BYTES] {
            let mut within = UnplacedSegment::within(vec![0xAA; used]);
            for page in 0..3 {
                within.push(
                    &[page * 10 + 3],
                    page * 10..page * 10 + 10,
                    Ages::NONE,
                    Baseline,
                );
            }
            let [within, fresh] =
                [within, draft(3)].map(|draft| draft.place(Binding::NONE, 100, 7));
            assert!(within == fresh, "{used}");
        }
    }
}
