//! Looking for fingerprints, several at once: what one look needs is fetched while others are looked for.

use super::directory;
use super::entry::Segment;
use super::fault::SegmentFault;
use super::fences;
use super::page_index::PageIndex;
use crate::fingerprint::page::look::{Candidates, LookPages, Unary};
use crate::page::ages::Remembered;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::sys::simd::dispatch::{self, Cpu, Work};
use crate::sys::simd::lanes::{Lanes, Mask, Single};

/// Looks that are at the same stage together: enough for lines to arrive while a group is at the other stages.
const GROUP_LOOKS: usize = 16;
/// A word in the line of a page where a look into it begins.
const FRONT: u64 = 2;
/// A word in the second line of a page.
const SECOND_LINE: u64 = 8;
/// What a look reads that has no page of its own: this page is always there, and is no hole.
const HEADER_PAGE: u64 = 0;
/// The steps of a look.
const STAGES: usize = 5;
/// The most lanes of any processor.
const MOST_LANES: usize = 8;

const _: () = assert!(
    GROUP_LOOKS.is_multiple_of(MOST_LANES),
    "a group is whole vectors"
);

/// The pages of a store file.
pub(crate) trait FilePages: Copy {
    /// Returns a word of a page for each lane, by its index modulo the words of a page.
    fn word<V: Lanes>(self, page: V, index: V) -> V;

    /// Returns eight bytes of a page from `byte` on for each lane, the last eight for any greater.
    fn bytes<V: Lanes>(self, page: V, byte: V) -> V;

    /// Asks for the line of the processor's cache in which a word of a page lies, for each lane.
    fn prefetch<V: Lanes>(self, page: V, index: V);

    /// Reads and checks the fences of a segment of the directory, one for each page.
    fn fences(self, segment: usize) -> Result<Vec<u64>, SegmentFault>;

    /// Checks a page, by its number in the file, that begins with a fence. Returns whether its front is short.
    fn check_list(self, segment: usize, number: u64, fence: u64) -> Result<bool, SegmentFault>;
}

/// The directory of a store and its pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup<'a, P> {
    pub(crate) segments: &'a [Segment],
    pub(crate) index: &'a PageIndex,
    pub(crate) space: FingerprintSpace,
    pub(crate) pages: P,
    /// The keys that are present, of those that are there.
    pub(crate) remembered: Remembered,
}

impl<P: FilePages> Lookup<'_, P> {
    /// Sets the answer for each of some hashes; `None` if a page on the way is damaged.
    pub(crate) fn contains_all(&self, hashes: &[u64], answers: &mut [Option<bool>]) {
        if self.segments.is_empty() {
            return answers.fill(Some(false));
        }
        let are_few = hashes.len() < GROUP_LOOKS;
        let looks = SomeLooks {
            lookup: *self,
            hashes,
            answers,
        };
        match are_few {
            true => dispatch::run(Few(looks)),
            false => dispatch::run_in_lanes(All(looks)),
        }
    }

    /// Does the same with one lane, as any processor can.
    #[cfg(test)]
    pub(crate) fn contains_all_alone(&self, hashes: &[u64], answers: &mut [Option<bool>]) {
        if self.segments.is_empty() {
            return answers.fill(Some(false));
        }
        let all = SomeLooks {
            lookup: *self,
            hashes,
            answers,
        };
        All(all).run(dispatch::Baseline);
    }

    /// Returns the answer for one hash.
    pub(crate) fn contains(&self, hash: u64) -> Option<bool> {
        if self.segments.is_empty() {
            return Some(false);
        }
        dispatch::run(One {
            lookup: *self,
            hash,
        })
    }

    /// Asks for the fence of a hash.
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(self.index.start(Single::of(hash)));
    }

    /// Returns the page of the file on which a hash lies; `None` without segments, or if their fences are damaged.
    pub(crate) fn page_of(&self, hash: u64) -> Option<u64> {
        if self.segments.is_empty() {
            return None;
        }
        let fingerprint = self.space.fingerprint(hash);
        let start = self.index.start(Single::of(hash));
        let near = self.index.find(start, Single::of(fingerprint));
        match near.is_there {
            true => Some(near.page.lane(0)),
            false => {
                let found = self.find_page(hash, fingerprint);
                found.ok().map(|(_, page)| page)
            }
        }
    }

    /// Checks the pages on the way of a hash, and returns the page on which it lies and the fence of that.
    #[cold]
    pub(crate) fn check_way(&self, hash: u64) -> Result<(u64, u64), SegmentFault> {
        let (segment, page) = self.find_page(hash, self.space.fingerprint(hash))?;
        let fence = self.index.fence(page);
        if !self.index.is_checked(page) {
            let has_short_front = self.pages.check_list(segment, page, fence)?;
            self.index.set_checked(page, has_short_front);
        }
        Ok((page, fence))
    }

    /// Finds the segment of a hash with this fingerprint, and its page in the file. There is at least one segment.
    fn find_page(&self, hash: u64, fingerprint: u64) -> Result<(usize, u64), SegmentFault> {
        let behind = self
            .segments
            .partition_point(|one| one.first <= fingerprint);
        let index = behind.saturating_sub(1);
        let segment = &self.segments[index];
        if !self.index.is_loaded(segment) {
            let fences = self.pages.fences(index)?;
            let range = directory::range(self.segments, index, self.space);
            self.index.load(segment, range, &fences, self.space);
        }
        let start = self.index.start(Single::of(hash)).lane(0);
        let guess = start.saturating_sub(segment.first_page);
        let fence = |page| self.index.fence(segment.first_page + page);
        let page = fences::page_of(fence, segment.pages.into(), guess, fingerprint);
        Ok((index, segment.first_page + page))
    }
}

/// The pages of looks, and where to read them.
#[derive(Clone, Copy)]
struct PagesOf<P, V> {
    file: P,
    page: V,
}

impl<P: FilePages, V: Lanes> LookPages<V> for PagesOf<P, V> {
    #[inline(always)]
    fn word(self, index: V) -> V {
        self.file.word(self.page, index)
    }

    #[inline(always)]
    fn bytes(self, byte: V) -> V {
        self.file.bytes(self.page, byte)
    }
}

/// Looks that take their steps together, one in each lane.
#[derive(Clone, Copy)]
struct Looks<V: Lanes> {
    fingerprint: V,
    /// In the file; first where the search for the fingerprint's page begins.
    page: V,
    /// The fingerprint, from the first one of its page on.
    offset: V,
    /// The lanes without an answer.
    failed: V::Mask,
    unary: Unary<V>,
    candidates: Candidates<V>,
}

impl<V: Lanes> Looks<V> {
    #[inline(always)]
    fn none() -> Self {
        let none = V::of(0);
        Self {
            fingerprint: none,
            page: none,
            offset: none,
            failed: V::Mask::NONE,
            unary: Unary::none(),
            candidates: Candidates::none(),
        }
    }

    /// Finds where to search for each hash, and asks for the fences there.
    #[inline(always)]
    fn begin<P: FilePages>(&mut self, lookup: &Lookup<'_, P>, hash: V) {
        let number = hash.times_high(lookup.space.count());
        self.fingerprint = number & V::of(lookup.space.mask());
        self.page = lookup.index.start(hash);
        lookup.index.prefetch(self.page);
    }

    /// Finds each fingerprint's page and asks for its front.
    #[inline(always)]
    fn locate<P: FilePages>(&mut self, lookup: &Lookup<'_, P>, hash: V) {
        let found = lookup.index.find(self.page, self.fingerprint);
        self.page = found.page;
        self.offset = self.fingerprint - found.fence;
        self.failed = V::Mask::NONE;
        if (!found.is_there).any() {
            self.locate_slowly(lookup, hash, found.is_there);
        }
        lookup.pages.prefetch(self.page, V::of(FRONT));
        if lookup.index.has_long_fronts() {
            // Where the last groups of a page begin may stand in the second line. Asking for the same line again is cheaper
            // than a branch that nobody can foresee.
            let is_late = (found.width - found.width.shr(V::of(2))).is_below(self.offset);
            let line = V::of(SECOND_LINE).where_or(is_late, V::of(FRONT));
            lookup.pages.prefetch(self.page, line);
        }
    }

    #[cold]
    #[inline(never)]
    fn locate_slowly<P: FilePages>(&mut self, lookup: &Lookup<'_, P>, hash: V, is_found: V::Mask) {
        let mut failed = V::Mask::NONE;
        let (mut pages, mut fences) = ([0; MOST_LANES], [0; MOST_LANES]);
        for lane in (0..V::COUNT).filter(|lane| !is_found.has(*lane)) {
            (pages[lane], fences[lane]) = match lookup.check_way(hash.lane(lane)) {
                Ok(found) => found,
                Err(_) => {
                    failed = failed | V::Mask::only(lane);
                    (HEADER_PAGE, 0)
                }
            };
        }
        self.page = self.page.where_or(is_found, V::each(|lane| pages[lane]));
        let offset = self.fingerprint - V::each(|lane| fences[lane]);
        self.offset = self.offset.where_or(is_found, offset);
        self.failed = failed;
    }

    #[inline(always)]
    fn pages<P: FilePages>(&self, lookup: &Lookup<'_, P>) -> PagesOf<P, V> {
        PagesOf {
            file: lookup.pages,
            page: self.page,
        }
    }

    /// Reads the pages' fronts and asks for unary bits.
    #[inline(always)]
    fn find_unary<P: FilePages>(&mut self, lookup: &Lookup<'_, P>) {
        self.unary = Unary::of(self.pages(lookup), self.offset);
        for index in self.unary.words() {
            lookup.pages.prefetch(self.page, index);
        }
    }

    /// Reads unary bits and asks for low parts.
    #[inline(always)]
    fn find_candidates<P: FilePages>(&mut self, lookup: &Lookup<'_, P>, cpu: impl Cpu) {
        self.candidates = self.unary.candidates(self.pages(lookup), cpu);
        for index in self.candidates.words() {
            lookup.pages.prefetch(self.page, index);
        }
    }

    /// Reads low parts. There may be fewer answers than lanes.
    #[inline(always)]
    fn answer<P: FilePages>(&self, lookup: &Lookup<'_, P>, answers: &mut [Option<bool>]) {
        let pages = self.pages(lookup);
        let found = self.candidates.contain(pages, lookup.remembered);
        for (lane, answer) in answers.iter_mut().enumerate() {
            *answer = match self.failed.has(lane) {
                true => None,
                false => Some(found.has(lane)),
            };
        }
    }
}

/// Some looks, and where their answers go.
struct SomeLooks<'a, P> {
    lookup: Lookup<'a, P>,
    hashes: &'a [u64],
    answers: &'a mut [Option<bool>],
}

impl<P: FilePages> SomeLooks<'_, P> {
    /// Takes a step of the looks that begin with this one, if there is such.
    #[inline(always)]
    fn step<V: Lanes>(&mut self, first: usize, stage: usize, looks: &mut Looks<V>, cpu: impl Cpu) {
        let end = self.hashes.len().min(first + V::COUNT);
        if first >= end {
            return;
        }
        match stage {
            0 => looks.begin(&self.lookup, V::first_of(&self.hashes[first..])),
            1 => looks.locate(&self.lookup, V::first_of(&self.hashes[first..])),
            2 => looks.find_unary(&self.lookup),
            3 => looks.find_candidates(&self.lookup, cpu),
            _ => looks.answer(&self.lookup, &mut self.answers[first..end]),
        }
    }

    /// Looks go through the stages in groups, one group behind the other: while a group is at one stage, the lines that
    /// others have asked for arrive.
    #[inline(always)]
    fn run_in_groups<C: Cpu, const VECTORS: usize>(mut self, cpu: C) {
        let count = self.hashes.len().div_ceil(GROUP_LOOKS);
        let mut groups = [[Looks::<C::Lanes>::none(); VECTORS]; STAGES];
        for step in 0..count + STAGES - 1 {
            // Each stage has another group.
            for stage in (0..STAGES).rev() {
                let Some(group) = step.checked_sub(stage).filter(|group| *group < count) else {
                    continue;
                };
                for (turn, looks) in groups[group % STAGES].iter_mut().enumerate() {
                    let first = group * GROUP_LOOKS + turn * C::Lanes::COUNT;
                    self.step(first, stage, looks, cpu);
                }
            }
        }
    }
}

/// Many looks, compiled for this processor.
struct All<'a, P>(SomeLooks<'a, P>);

impl<P: FilePages> Work for All<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) {
        const EIGHTH: usize = GROUP_LOOKS / MOST_LANES;
        match C::Lanes::COUNT {
            MOST_LANES => self.0.run_in_groups::<C, EIGHTH>(cpu),
            _ => self.0.run_in_groups::<C, GROUP_LOOKS>(cpu),
        }
    }
}

/// Fewer looks than make a group: one lane for each, so that none waits for another's line.
struct Few<'a, P>(SomeLooks<'a, P>);

impl<P: FilePages> Work for Few<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<C: Cpu>(mut self, cpu: C) {
        let mut looks = [Looks::<Single>::none(); GROUP_LOOKS];
        let count = self.0.hashes.len();
        for stage in 0..STAGES {
            for (turn, look) in looks.iter_mut().enumerate().take(count) {
                self.0.step(turn, stage, look, cpu);
            }
        }
    }
}

/// One look, compiled for this processor.
struct One<'a, P> {
    lookup: Lookup<'a, P>,
    hash: u64,
}

impl<P: FilePages> Work for One<'_, P> {
    type Output = Option<bool>;

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) -> Option<bool> {
        let Self { lookup, hash } = self;
        let (mut look, hash) = (Looks::none(), Single::of(hash));
        let mut answers = [None];
        look.begin(&lookup, hash);
        look.locate(&lookup, hash);
        look.find_unary(&lookup);
        look.find_candidates(&lookup, cpu);
        look.answer(&lookup, &mut answers);
        answers[0]
    }
}
