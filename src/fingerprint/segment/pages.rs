//! The segments of one directory as a reader has them: mapped, and each page checked at its first use.

use std::ops::Range;
use std::sync::Arc;

use super::directory::range;
use super::entry::Segment;
use super::fault::{SegmentFault, check_sealed};
use super::fences;
use super::lookup::{FilePages, Lookup};
use super::negative_filter::{FILTERED_AT_ONCE, NegativeFilter};
use super::page_index::PageIndex;
use super::reuse::is_stale;
use crate::file::DirectoryRef;
use crate::file::layout::REUSED_OFFSET;
use crate::fingerprint::page::{self, read::FingerprintFault};
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES, PAGE_WORDS};
use crate::sys::simd::lanes::Lanes;
use crate::sys::{Map, Parts};

/// The directory that a superblock names, and a map of the file.
#[derive(Debug)]
pub(crate) struct SegmentPages {
    segments: Vec<Segment>,
    index: PageIndex,
    space: FingerprintSpace,
    binding: Binding,
    /// The version of the directory.
    version: u64,
    /// The whole file, at least up to the last page of a segment.
    map: Arc<Map>,
    /// Contains all fingerprints of these segments.
    negative_filter: Option<Arc<NegativeFilter>>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The room of these segments may hold others by now. Look in a newer directory.
    Stale,
    Damaged(SegmentFault),
}

impl SegmentPages {
    /// Returns the segments of a directory. `map` covers the file up to the directory's last page. Pages that `held` has
    /// checked are not checked again.
    pub(crate) fn new(
        segments: Vec<Segment>,
        (space, binding): (FingerprintSpace, Binding),
        directory: &DirectoryRef,
        map: Arc<Map>,
        held: Option<&Self>,
    ) -> std::io::Result<Self> {
        let pages = Self {
            index: PageIndex::of(&segments, directory.end_page)?,
            segments,
            space,
            binding,
            version: directory.version,
            map,
            negative_filter: None,
        };
        if let Some(held) = held {
            pages.take_over(held);
        }
        Ok(pages)
    }

    /// Adds a filter that contains all fingerprints of these segments.
    pub(crate) fn with_negative_filter(self, negative_filter: Option<Arc<NegativeFilter>>) -> Self {
        Self {
            negative_filter,
            ..self
        }
    }

    /// Returns the filter that contains all fingerprints of these segments, if there is one.
    pub(crate) fn negative_filter(&self) -> Option<&Arc<NegativeFilter>> {
        self.negative_filter.as_ref()
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

    /// Returns the map, for the next directory.
    pub(crate) fn map(&self) -> &Arc<Map> {
        &self.map
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether what was read up to now may be of later segments.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        is_stale(|| self.map.word(REUSED_OFFSET as usize / 8), self.version)
    }

    fn copy(&self, page: u64) -> [u8; PAGE_BYTES] {
        let mut bytes = [0; PAGE_BYTES];
        self.map.copy(page as usize * PAGE_WORDS, &mut bytes);
        bytes
    }

    /// Reads and checks all fences of a segment.
    fn fences(&self, index: usize) -> Result<Vec<u64>, SegmentFault> {
        let segment = &self.segments[index];
        let range = range(&self.segments, index, self.space);
        let first = segment.first_fence_page();
        let page = |number| self.copy(number);
        let Segment {
            pages, generation, ..
        } = *segment;
        fences::read(self.binding, pages, first, generation, range, page)
    }

    /// Checks a page whose range begins with a fence. Returns whether its front is short.
    fn check_list(&self, index: usize, number: u64, fence: u64) -> Result<bool, SegmentFault> {
        let bytes = self.copy(number);
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
        Ok(page::has_short_front(&bytes))
    }

    fn lookup(&self) -> Lookup<'_, MappedPages<'_>> {
        Lookup {
            segments: &self.segments,
            index: &self.index,
            space: self.space,
            pages: MappedPages {
                segments: self,
                pages: self.map.parts(),
            },
        }
    }

    /// Sets the answer for each of some hashes; `None` if there was none.
    pub(crate) fn contains_all(&self, hashes: &[u64], answers: &mut [Option<bool>]) {
        debug_assert_eq!(hashes.len(), answers.len());
        let Some(negative_filter) = &self.negative_filter else {
            self.lookup().contains_all(hashes, answers);
            return;
        };
        let groups = hashes.chunks(FILTERED_AT_ONCE);
        for (some, answers) in groups.zip(answers.chunks_mut(FILTERED_AT_ONCE)) {
            let mut turns = [0; FILTERED_AT_ONCE];
            let fingerprints = some.iter().map(|hash| self.space.fingerprint(*hash));
            let Some(turns) = negative_filter.sift(fingerprints, &mut turns) else {
                self.lookup().contains_all(some, answers);
                continue;
            };
            let (mut rest, mut left) = ([0; FILTERED_AT_ONCE], [None; FILTERED_AT_ONCE]);
            let (rest, left) = (&mut rest[..turns.len()], &mut left[..turns.len()]);
            for (hash, turn) in rest.iter_mut().zip(turns) {
                *hash = some[usize::from(*turn)];
            }
            self.lookup().contains_all(rest, left);
            answers.fill(Some(false));
            for (answer, turn) in left.iter().zip(turns) {
                answers[usize::from(*turn)] = *answer;
            }
        }
    }

    /// Returns whether a key is there.
    pub(crate) fn contains(&self, hash: u64) -> Result<bool, NoAnswer> {
        let is_absent = |negative_filter: &Arc<NegativeFilter>| {
            !negative_filter.may_contain(self.space.fingerprint(hash))
        };
        let found = match self.negative_filter.as_ref().is_some_and(is_absent) {
            true => Some(false),
            false => self.lookup().contains(hash),
        };
        if self.is_stale() {
            return Err(NoAnswer::Stale);
        }
        match found {
            Some(found) => Ok(found),
            None => Err(self.fault(hash)),
        }
    }

    /// Returns why there is no answer for a key.
    #[cold]
    fn fault(&self, hash: u64) -> NoAnswer {
        let fault = self.lookup().check_way(hash);
        match fault {
            Err(fault) if !self.is_stale() => NoAnswer::Damaged(fault),
            // Whatever was wrong has been written again since.
            _ => NoAnswer::Stale,
        }
    }

    /// Asks for the lines that a look-up of a key begins with.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(negative_filter) = &self.negative_filter {
            negative_filter.prefetch(self.space.fingerprint(hash));
        }
        self.lookup().prefetch(hash);
    }

    /// Returns the page of the file that a look-up of a hash reads; `None` without segments.
    pub(crate) fn page_of(&self, hash: u64) -> Option<u64> {
        self.lookup().page_of(hash)
    }

    /// Returns how many pages of fingerprints there are.
    pub(crate) fn pages(&self) -> u64 {
        let pages = self.segments.iter().map(|segment| u64::from(segment.pages));
        pages.sum()
    }

    /// Asks the system for some pages of the file, without waiting for them.
    pub(crate) fn will_need(&self, pages: Range<u64>) {
        let count = pages.end - pages.start;
        self.map.will_need(
            pages.start as usize * PAGE_WORDS,
            count as usize * PAGE_WORDS,
        );
    }
}

/// What look-ups read of the segments.
#[derive(Clone, Copy)]
struct MappedPages<'a> {
    segments: &'a SegmentPages,
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
        self.segments.fences(segment)
    }

    fn check_list(self, segment: usize, number: u64, fence: u64) -> Result<bool, SegmentFault> {
        self.segments.check_list(segment, number, fence)
    }
}
