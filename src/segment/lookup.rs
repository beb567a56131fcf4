//! Looking for fingerprints, several at once: what one look needs is fetched while others are looked for.

use super::fault::SegmentFault;
use super::fences;
use super::index::SegmentIndex;
use crate::page::PAGE_WORDS;
use crate::page::fingerprint::read::{Candidates, Unary};
use crate::page::space::Space;
use crate::sys::cpu_dispatch::{self, Cpu, Work};

/// Fingerprints that are looked for together: enough to keep the memory busy, and few enough for the nearest cache.
pub(crate) const AT_ONCE: usize = 48;
const _: () = assert!(AT_ONCE <= u64::BITS as usize);
/// The word of a page with the first fingerprint of its range: there a look into the page begins.
const FRONT: usize = 2;
/// A word in the second line of a page.
const SECOND_LINE: usize = 8;
/// Fences around the likely page that are compared without a search: a page is rarely more than one away from it.
pub(crate) const NEAR_FENCES: usize = 4;

/// The pages of a store file as words.
pub(crate) trait PageWords: Copy {
    /// Returns what reads the words of a page. Of words and pages that are not there it reads anything.
    fn page(self, number: u64) -> impl Fn(usize) -> u64 + Copy;

    /// Asks for the line of the processor's cache in which a word lies.
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
}

/// A look whose page is known.
#[derive(Debug, Clone, Copy, Default)]
struct Located {
    fingerprint: u64,
    /// Within the file.
    page: u64,
    /// A word of the line with the directory's part that matters.
    line: usize,
}

/// A look that has come to a part of its page, and which of the looks it is.
#[derive(Debug, Clone, Copy, Default)]
struct Inside<T> {
    page: u64,
    part: T,
    turn: u32,
}

impl<P: PageWords> Lookup<'_, P> {
    /// Calls `each` with the answer for each hash, in their order; `None` if a page on the way is damaged.
    pub(crate) fn contains_all(&self, hashes: &[u64], mut each: impl FnMut(Option<bool>)) {
        if self.index.is_empty() {
            hashes.iter().for_each(|_| each(Some(false)));
            return;
        }
        let mut stages = Stages::default();
        for some in hashes.chunks(AT_ONCE) {
            let (found, failed) = cpu_dispatch::run(Group {
                lookup: *self,
                hashes: some,
                stages: &mut stages,
            });
            for turn in 0..some.len() {
                let has_answer = failed >> turn & 1 == 0;
                each(has_answer.then_some(found >> turn & 1 != 0));
            }
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
        }
    }

    /// Finds the page by its fence and asks for its front; `None` if the fences are damaged.
    #[inline(always)]
    fn locate(&self, begun: &Begun) -> Option<Located> {
        let segment = begun.segment as usize;
        self.pages.load_fences(segment).ok()?;
        let own = self.index.waypoint(segment);
        let near = self.page_near(begun, own.pages);
        let (page, line) = near.unwrap_or_else(|| (self.page_by_fences(begun), FRONT));
        Some(Located {
            fingerprint: begun.fingerprint,
            page: own.first_page + page,
            line,
        })
    }

    /// Returns the page if it is one of the few around the likely one, by comparing with the fences of all of them: a
    /// search would not know where to go. Also returns a word of the line with the directory's part that matters. `None`
    /// if it is not near.
    #[inline(always)]
    fn page_near(&self, begun: &Begun, pages: u64) -> Option<(u64, usize)> {
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
        let line = if is_late { SECOND_LINE } else { FRONT };
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
                self.pages.prefetch(look.page, index % PAGE_WORDS);
            }
        }
        Ok(unary)
    }

    /// Returns the answers for at most [`AT_ONCE`] hashes: a bit for each that is there, and a bit for each that has no
    /// answer.
    ///
    /// Each stage leaves the looks that go on one behind the other, so that the next has no branch that depends on how a
    /// look went.
    #[inline(always)]
    fn look_up(&self, hashes: &[u64], stages: &mut Stages, cpu: impl Cpu) -> (u64, u64) {
        let Stages {
            begun,
            located,
            unaries,
            candidates,
        } = stages;
        let (mut found, mut failed) = (0_u64, 0_u64);
        // Plain loops: what goes through the iterators' own functions is compiled for every processor.
        for (one, hash) in begun.iter_mut().zip(hashes) {
            *one = self.begin(*hash);
        }
        for (turn, one) in begun[..hashes.len()].iter().enumerate() {
            match self.locate(one) {
                Some(there) => located[turn] = there,
                None => failed |= 1 << turn,
            }
        }
        // In a loop by itself: with few instructions between them, the processor translates several pages' addresses at
        // once. Some may be pages of looks before, if fences failed.
        for there in &located[..hashes.len()] {
            self.pages.prefetch(there.page, FRONT);
            self.pages.prefetch(there.page, there.line);
        }
        let mut count = 0;
        for (turn, there) in located[..hashes.len()].iter().enumerate() {
            if failed >> turn & 1 != 0 {
                continue;
            }
            match self.find_unary(there, hashes[turn]) {
                Ok(Some(part)) => {
                    let (page, turn) = (there.page, turn as u32);
                    unaries[count] = Inside { page, part, turn };
                    count += 1;
                }
                Ok(None) => {}
                Err(_) => failed |= 1 << turn,
            }
        }
        let mut left = 0;
        for unary in &unaries[..count] {
            let Inside { turn, page, part } = *unary;
            let (part, are_any) = part.candidates(self.pages.page(page), cpu);
            candidates[left] = Inside { turn, page, part };
            left += usize::from(are_any);
            // Without candidates, for a line that is there.
            let index = if are_any { part.word() } else { FRONT };
            self.pages.prefetch(page, index % PAGE_WORDS);
        }
        for one in &candidates[..left] {
            let is_there = one.part.contain(self.pages.page(one.page));
            found |= u64::from(is_there) << one.turn;
        }
        (found, failed)
    }
}

/// Looks on their way, at each stage.
struct Stages {
    begun: [Begun; AT_ONCE],
    located: [Located; AT_ONCE],
    unaries: [Inside<Unary>; AT_ONCE],
    candidates: [Inside<Candidates>; AT_ONCE],
}

impl Default for Stages {
    fn default() -> Self {
        Self {
            begun: [Begun::default(); AT_ONCE],
            located: [Located::default(); AT_ONCE],
            unaries: [Inside::default(); AT_ONCE],
            candidates: [Inside::default(); AT_ONCE],
        }
    }
}

/// Some looks, compiled for this processor.
struct Group<'a, P> {
    lookup: Lookup<'a, P>,
    hashes: &'a [u64],
    stages: &'a mut Stages,
}

impl<P: PageWords> Work for Group<'_, P> {
    type Output = (u64, u64);

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) -> (u64, u64) {
        self.lookup.look_up(self.hashes, self.stages, cpu)
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
        lookup.pages.prefetch(located.page, located.line);
        let Some(unary) = lookup.find_unary(&located, self.hash).ok()? else {
            return Some(false);
        };
        let word = lookup.pages.page(located.page);
        let (candidates, are_any) = unary.candidates(word, cpu);
        if are_any {
            lookup
                .pages
                .prefetch(located.page, candidates.word() % PAGE_WORDS);
        }
        Some(are_any && candidates.contain(word))
    }
}
