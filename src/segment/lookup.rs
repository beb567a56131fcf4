//! Looking for fingerprints, several at once: what one look needs is fetched while others are looked for.

use super::fault::SegmentFault;
use super::fences;
use super::index::SegmentIndex;
use crate::page::fingerprint::read::{Candidates, Unary};
use crate::page::space::Space;
use crate::sys::cpu_dispatch::{self, Cpu, Work};

/// Looks that are at the same stage together: enough for lines to arrive while a group is at the other stages.
const STAGE_GROUP: usize = 16;
/// The word of a page with the first fingerprint of its range: there a look into the page begins.
const FRONT: usize = 2;
/// A word in the second line of a page.
const SECOND_LINE: u32 = 8;
/// Fences around the likely page that are compared without a search: a page is rarely more than one away from it.
pub(crate) const NEAR_FENCES: usize = 4;

/// The pages of a store file as words.
pub(crate) trait PageWords: Copy {
    /// Returns what reads the words of a page. Of words and pages that are not there it reads anything.
    fn page(self, number: u64) -> impl Fn(usize) -> u64 + Copy;

    /// Asks for the line of the processor's cache in which a word of a page lies, modulo the words of a page.
    fn prefetch(self, number: u64, index: usize);

    /// Makes sure that the fences of a segment of the directory can be asked for.
    fn load_fences(self, segment: usize) -> Result<(), SegmentFault>;

    /// Returns the fence of a page, counted within a segment. Of fences that are not there it returns anything.
    fn fence(self, segment: usize, page: u64) -> u64;

    /// Returns the fences of adjacent pages, the first of which is `start`. The segment has so many.
    #[inline(always)]
    fn near_fences(self, segment: usize, start: u64) -> [u64; NEAR_FENCES] {
        std::array::from_fn(|near| self.fence(segment, start + near as u64))
    }

    /// Asks for the line of the processor's cache in which a fence lies.
    fn prefetch_fence(self, segment: usize, page: u64);

    /// Returns whether [`check_list`](Self::check_list) has passed a page.
    fn is_checked(self, number: u64) -> bool;

    /// Checks a page, by its number in the file, that begins with a fence.
    fn check_list(self, segment: usize, number: u64, fence: u64) -> Result<(), SegmentFault>;
}

/// The directory of a store and its pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup<'a, P> {
    pub(crate) index: &'a SegmentIndex,
    pub(crate) space: Space,
    pub(crate) pages: P,
}

/// A look that has begun: the segment is known, and about which of its pages.
#[derive(Debug, Clone, Copy, Default)]
struct Begun {
    fingerprint: u64,
    segment: u32,
    /// Within the segment.
    page: u32,
    turn: u32,
}

/// A look whose page is known.
#[derive(Debug, Clone, Copy, Default)]
struct Located {
    fingerprint: u64,
    /// Within the file.
    page: u64,
    /// A word of the line with the directory's part that matters.
    line: u32,
    turn: u32,
}

/// A look that has come to a part of its page, and which of the looks it is.
#[derive(Debug, Clone, Copy, Default)]
struct Inside<T> {
    page: u64,
    part: T,
    turn: u32,
}

impl<P: PageWords> Lookup<'_, P> {
    /// Sets the answer for each of some hashes, fewer than 2^32; `None` if a page on the way is damaged.
    pub(crate) fn contains_all(&self, hashes: &[u64], answers: &mut [Option<bool>]) {
        answers.fill(Some(false));
        if !self.index.is_empty() {
            cpu_dispatch::run(All {
                lookup: *self,
                hashes,
                answers,
            });
        }
    }

    /// Returns the answer for one hash.
    pub(crate) fn contains(&self, hash: u64) -> Option<bool> {
        if self.index.is_empty() {
            return Some(false);
        }
        cpu_dispatch::run(One {
            lookup: *self,
            hash,
        })
    }

    /// Asks for the fence of a hash.
    pub(crate) fn prefetch(&self, hash: u64) {
        if !self.index.is_empty() {
            self.begin(hash);
        }
    }

    /// Returns the page of the file on which a hash lies; `None` without segments, or if their fences are damaged.
    pub(crate) fn page_of(&self, hash: u64) -> Option<u64> {
        if self.index.is_empty() {
            return None;
        }
        let begun = self.begin(hash);
        let segment = begun.segment as usize;
        self.pages.load_fences(segment).ok()?;
        Some(self.index.waypoint(segment).first_page + self.page_by_fences(&begun))
    }

    /// Checks the pages on the way of a hash.
    #[cold]
    pub(crate) fn check_way(&self, hash: u64) -> Result<(), SegmentFault> {
        if self.index.is_empty() {
            return Ok(());
        }
        let begun = self.begin(hash);
        let segment = begun.segment as usize;
        self.pages.load_fences(segment)?;
        let page = self.page_by_fences(&begun);
        let fence = self.pages.fence(segment, page);
        let number = self.index.waypoint(segment).first_page + page;
        self.pages.check_list(segment, number, fence)
    }

    /// Finds a hash's segment and asks for its fence.
    #[inline(always)]
    fn begin(&self, hash: u64) -> Begun {
        let fingerprint = self.space.fingerprint(hash);
        let segment = self.index.segment_of(hash, fingerprint);
        let page = self.index.waypoint(segment).likely_page(fingerprint);
        self.pages.prefetch_fence(segment, page);
        Begun {
            fingerprint,
            segment: segment as u32,
            page: page as u32,
            turn: 0,
        }
    }

    /// Finds the page by its fence and asks for its front; `None` if the fences are damaged.
    #[inline(always)]
    fn locate(&self, begun: &Begun) -> Option<Located> {
        let segment = begun.segment as usize;
        self.pages.load_fences(segment).ok()?;
        let own = self.index.waypoint(segment);
        let near = self.page_near(begun, own.pages);
        let (page, line) = near.unwrap_or_else(|| (self.page_by_fences(begun), FRONT as u32));
        Some(Located {
            fingerprint: begun.fingerprint,
            page: own.first_page + page,
            line,
            turn: begun.turn,
        })
    }

    #[inline(always)]
    fn prefetch_front(&self, there: &Located) {
        self.pages.prefetch(there.page, FRONT);
        self.pages.prefetch(there.page, there.line as usize);
    }

    /// Returns the page if it is one of the few around the likely one, by comparing with the fences of all of them: a
    /// search would not know where to go. Also returns a word of the line with the directory's part that matters. `None`
    /// if it is not near.
    #[inline(always)]
    fn page_near(&self, begun: &Begun, pages: u64) -> Option<(u64, u32)> {
        let start = u64::from(begun.page.saturating_sub(1));
        if start + NEAR_FENCES as u64 > pages {
            return None;
        }
        let near = self.pages.near_fences(begun.segment as usize, start);
        let mut passed = 0;
        for fence in near {
            passed += usize::from(fence <= begun.fingerprint);
        }
        if !(1..NEAR_FENCES).contains(&passed) {
            return None;
        }
        // Where the last groups of a page begin stands in the second line.
        let (fence, next) = (near[passed - 1], near[passed]);
        let width = next.wrapping_sub(fence);
        let is_late = begun.fingerprint.wrapping_sub(fence) > width - width / 4;
        // Asking for the same line again is cheaper than a branch that nobody can foresee.
        let line = if is_late { SECOND_LINE } else { FRONT as u32 };
        Some((start + passed as u64 - 1, line))
    }

    #[cold]
    fn page_by_fences(&self, begun: &Begun) -> u64 {
        let segment = begun.segment as usize;
        let pages = self.index.waypoint(segment).pages;
        let fence = |page: u64| self.pages.fence(segment, page);
        fences::page_of(fence, pages, begun.page.into(), begun.fingerprint)
    }

    /// Reads the page's front and asks for its unary bits. `Ok(None)` if the page can't hold the fingerprint.
    #[inline(always)]
    fn find_unary(&self, look: &Located, hash: u64) -> Result<Option<Unary>, SegmentFault> {
        if !self.pages.is_checked(look.page) {
            self.check_way(hash)?;
        }
        let word = self.pages.page(look.page);
        let offset = look.fingerprint.wrapping_sub(word(FRONT));
        let unary = Unary::of(word, offset);
        if let Some(unary) = &unary {
            for index in unary.words() {
                self.pages.prefetch(look.page, index);
            }
        }
        Ok(unary)
    }
}

/// Many looks, compiled for this processor.
struct All<'a, P> {
    lookup: Lookup<'a, P>,
    hashes: &'a [u64],
    answers: &'a mut [Option<bool>],
}

impl<P: PageWords> Work for All<'_, P> {
    type Output = ();

    /// Looks go through the stages in groups, one group behind the other: while a group is at one stage, the lines that others
    /// have asked for arrive. The last stage goes first, so that each finds its looks where the one before has left them.
    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) {
        let All {
            lookup,
            hashes,
            answers,
        } = self;
        let mut stages = Stages::default();
        let groups = hashes.len().div_ceil(STAGE_GROUP);
        for step in 0..groups + Stages::BEHIND {
            stages.compare(&lookup, answers);
            stages.find_candidates(&lookup, cpu);
            stages.find_unaries(&lookup, hashes, answers);
            stages.locate(&lookup, answers);
            let first = hashes.len().min(step * STAGE_GROUP);
            let end = hashes.len().min(first + STAGE_GROUP);
            stages.begin(&lookup, first, &hashes[first..end]);
        }
    }
}

/// Looks that have come to a stage.
struct Stage<T> {
    looks: [T; STAGE_GROUP],
    count: usize,
}

impl<T: Copy + Default> Default for Stage<T> {
    fn default() -> Self {
        Self {
            looks: [T::default(); STAGE_GROUP],
            count: 0,
        }
    }
}

impl<T> Stage<T> {
    /// Adds a look if it goes on, without a branch: that is not known before.
    #[inline(always)]
    fn push_if(&mut self, goes_on: bool, look: T) {
        self.looks[self.count] = look;
        self.count += usize::from(goes_on);
    }

    /// Returns the looks, in order, and leaves the place to others.
    #[inline(always)]
    fn take(&mut self) -> &[T] {
        &self.looks[..std::mem::take(&mut self.count)]
    }
}

/// Looks on their way, a group at each stage.
#[derive(Default)]
struct Stages {
    begun: Stage<Begun>,
    located: Stage<Located>,
    unaries: Stage<Inside<Unary>>,
    candidates: Stage<Inside<Candidates>>,
}

// Plain loops: what goes through the iterators' own functions is compiled for every processor.
impl Stages {
    /// The steps that a group takes after its first.
    const BEHIND: usize = 4;

    #[inline(always)]
    fn begin<P: PageWords>(&mut self, lookup: &Lookup<'_, P>, first: usize, hashes: &[u64]) {
        for (turn, hash) in hashes.iter().enumerate() {
            let begun = lookup.begin(*hash);
            let turn = (first + turn) as u32;
            self.begun.push_if(true, Begun { turn, ..begun });
        }
    }

    #[inline(always)]
    fn locate<P: PageWords>(&mut self, lookup: &Lookup<'_, P>, answers: &mut [Option<bool>]) {
        for begun in self.begun.take() {
            match lookup.locate(begun) {
                Some(there) => self.located.push_if(true, there),
                None => answers[begun.turn as usize] = None,
            }
        }
        // In a loop by itself: with few instructions between them, the processor translates several pages' addresses at
        // once.
        for there in &self.located.looks[..self.located.count] {
            lookup.prefetch_front(there);
        }
    }

    #[inline(always)]
    fn find_unaries<P: PageWords>(
        &mut self,
        lookup: &Lookup<'_, P>,
        hashes: &[u64],
        answers: &mut [Option<bool>],
    ) {
        for there in self.located.take() {
            let Located { page, turn, .. } = *there;
            match lookup.find_unary(there, hashes[turn as usize]) {
                Ok(Some(part)) => self.unaries.push_if(true, Inside { page, part, turn }),
                Ok(None) => {}
                Err(_) => answers[turn as usize] = None,
            }
        }
    }

    #[inline(always)]
    fn find_candidates<P: PageWords>(&mut self, lookup: &Lookup<'_, P>, cpu: impl Cpu) {
        for unary in self.unaries.take() {
            let Inside { turn, page, part } = *unary;
            let (part, are_any) = part.candidates(lookup.pages.page(page), cpu);
            // Without candidates, for a line that is there.
            let index = if are_any { part.word() } else { FRONT };
            lookup.pages.prefetch(page, index);
            self.candidates
                .push_if(are_any, Inside { turn, page, part });
        }
    }

    #[inline(always)]
    fn compare<P: PageWords>(&mut self, lookup: &Lookup<'_, P>, answers: &mut [Option<bool>]) {
        for one in self.candidates.take() {
            let is_there = one.part.contain(lookup.pages.page(one.page));
            answers[one.turn as usize] = Some(is_there);
        }
    }
}

/// One look, compiled for this processor.
struct One<'a, P> {
    lookup: Lookup<'a, P>,
    hash: u64,
}

impl<P: PageWords> Work for One<'_, P> {
    type Output = Option<bool>;

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) -> Option<bool> {
        let lookup = &self.lookup;
        let located = lookup.locate(&lookup.begin(self.hash))?;
        lookup.prefetch_front(&located);
        let Some(unary) = lookup.find_unary(&located, self.hash).ok()? else {
            return Some(false);
        };
        let word = lookup.pages.page(located.page);
        let (candidates, are_any) = unary.candidates(word, cpu);
        if are_any {
            lookup.pages.prefetch(located.page, candidates.word());
        }
        Some(are_any && candidates.contain(word))
    }
}
