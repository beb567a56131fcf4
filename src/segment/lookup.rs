//! Looking for fingerprints, several at once: what one look needs is fetched while others are looked for.

use super::directory::range;
use super::entry::Segment;
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
const NEAR_FENCES: u64 = 4;

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

    /// Asks for the line of the processor's cache in which a fence lies.
    fn prefetch_fence(self, segment: usize, page: u64);

    /// Checks a page, by its number in the file, that begins with a fence.
    fn check_list(self, segment: usize, number: u64, fence: u64) -> Result<(), SegmentFault>;
}

/// The directory of a store and its pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup<'a, P> {
    pub(crate) segments: &'a [Segment],
    pub(crate) index: &'a SegmentIndex,
    pub(crate) space: Space,
    pub(crate) pages: P,
}

/// A look that has begun: the segment is known, and about which of its pages.
#[derive(Debug, Clone, Copy, Default)]
struct Begun {
    fingerprint: u64,
    segment: usize,
    /// Within the segment.
    page: u64,
}

/// A look whose page is known.
#[derive(Debug, Clone, Copy, Default)]
struct Located {
    fingerprint: u64,
    segment: usize,
    /// Within the file.
    page: u64,
    /// The first fingerprint of the page's range.
    fence: u64,
}

/// A look that has come to a part of its page, and which of the looks it is.
#[derive(Debug, Clone, Copy, Default)]
struct Inside<T> {
    turn: usize,
    page: u64,
    part: T,
}

impl<P: PageWords> Lookup<'_, P> {
    /// Calls `each` with the answer for each hash, in their order; `None` if a page on the way is damaged.
    pub(crate) fn contains_all(&self, hashes: &[u64], mut each: impl FnMut(Option<bool>)) {
        if self.segments.is_empty() {
            hashes.iter().for_each(|_| each(Some(false)));
            return;
        }
        for some in hashes.chunks(AT_ONCE) {
            let (found, failed) = cpu_dispatch::run(Group {
                lookup: *self,
                hashes: some,
            });
            for turn in 0..some.len() {
                let has_answer = failed >> turn & 1 == 0;
                each(has_answer.then_some(found >> turn & 1 != 0));
            }
        }
    }

    /// Returns the answer for one hash.
    pub(crate) fn contains(&self, hash: u64) -> Option<bool> {
        if self.segments.is_empty() {
            return Some(false);
        }
        cpu_dispatch::run(One {
            lookup: *self,
            hash,
        })
    }

    /// Asks for the fence of a hash.
    pub(crate) fn prefetch(&self, hash: u64) {
        if !self.segments.is_empty() {
            self.begin(hash);
        }
    }

    /// Returns the page of the file on which a hash lies; `None` without segments, or if their fences are damaged.
    pub(crate) fn page_of(&self, hash: u64) -> Option<u64> {
        if self.segments.is_empty() {
            return None;
        }
        let begun = self.begin(hash);
        self.pages.load_fences(begun.segment).ok()?;
        Some(self.segments[begun.segment].first_page + self.page_by_fences(&begun))
    }

    /// Checks the pages on the way of a hash.
    pub(crate) fn check_way(&self, hash: u64) -> Result<(), SegmentFault> {
        if self.segments.is_empty() {
            return Ok(());
        }
        let begun = self.begin(hash);
        self.pages.load_fences(begun.segment)?;
        let page = self.page_by_fences(&begun);
        let fence = self.pages.fence(begun.segment, page);
        let first_page = self.segments[begun.segment].first_page;
        self.pages
            .check_list(begun.segment, first_page + page, fence)
    }

    /// Finds a hash's segment and asks for its fence.
    #[inline(always)]
    fn begin(&self, hash: u64) -> Begun {
        let fingerprint = self.space.fingerprint(hash);
        let segment = self.index.segment_of(hash, fingerprint);
        let own = &self.segments[segment];
        let range = range(self.segments, segment, self.space);
        let page = fences::likely_page(own.pages, range, fingerprint);
        self.pages.prefetch_fence(segment, page);
        Begun {
            fingerprint,
            segment,
            page,
        }
    }

    /// Finds the page by its fence and asks for its front; `None` if the fences are damaged.
    #[inline(always)]
    fn locate(&self, begun: &Begun) -> Option<Located> {
        self.pages.load_fences(begun.segment).ok()?;
        let page = match self.page_near(begun) {
            Some(page) => page,
            None => self.page_by_fences(begun),
        };
        let own = &self.segments[begun.segment];
        let located = Located {
            fingerprint: begun.fingerprint,
            segment: begun.segment,
            page: own.first_page + page,
            fence: self.pages.fence(begun.segment, page),
        };
        self.pages.prefetch(located.page, FRONT);
        // Where the later groups of a page begin stands in the second line.
        let next = match page + 1 < u64::from(own.pages) {
            true => self.pages.fence(begun.segment, page + 1),
            false => range(self.segments, begun.segment, self.space).end,
        };
        let passed = begun.fingerprint.saturating_sub(located.fence);
        let is_late = passed > next.saturating_sub(located.fence) / 2;
        // Asking for the same line again is cheaper than a branch that nobody can foresee.
        let line = if is_late { SECOND_LINE } else { FRONT };
        self.pages.prefetch(located.page, line);
        Some(located)
    }

    /// Returns the page if it is one of the few around the likely one, by comparing with the fences of all of them: a
    /// search would not know where to go. `None` if it is not.
    #[inline(always)]
    fn page_near(&self, begun: &Begun) -> Option<u64> {
        let own = &self.segments[begun.segment];
        let start = begun.page.saturating_sub(1);
        if start + NEAR_FENCES > u64::from(own.pages) {
            return None;
        }
        let mut passed = 0;
        for near in 0..NEAR_FENCES {
            let fence = self.pages.fence(begun.segment, start + near);
            passed += u64::from(fence <= begun.fingerprint);
        }
        (1..NEAR_FENCES)
            .contains(&passed)
            .then(|| start + passed - 1)
    }

    #[inline(always)]
    fn page_by_fences(&self, begun: &Begun) -> u64 {
        let own = &self.segments[begun.segment];
        let fence = |page: u64| self.pages.fence(begun.segment, page);
        fences::page_of(fence, own.pages, begun.page, begun.fingerprint)
    }

    /// Reads the page's front and asks for its unary bits. `Ok(None)` if the page can't hold the fingerprint.
    #[inline(always)]
    fn find_unary(&self, look: &Located) -> Result<Option<Unary>, SegmentFault> {
        self.pages.check_list(look.segment, look.page, look.fence)?;
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
    fn look_up(&self, hashes: &[u64], cpu: impl Cpu) -> (u64, u64) {
        let (mut found, mut failed) = (0_u64, 0_u64);
        let mut begun = [Begun::default(); AT_ONCE];
        let begun = &mut begun[..hashes.len()];
        // Plain loops: what goes through the iterators' own functions is compiled for every processor.
        for (one, hash) in begun.iter_mut().zip(hashes) {
            *one = self.begin(*hash);
        }
        let mut located = [Located::default(); AT_ONCE];
        for (turn, one) in begun.iter().enumerate() {
            match self.locate(one) {
                Some(there) => located[turn] = there,
                None => failed |= 1 << turn,
            }
        }
        let (mut unaries, mut count) = ([Inside::<Unary>::default(); AT_ONCE], 0);
        for (turn, there) in located[..hashes.len()].iter().enumerate() {
            if failed >> turn & 1 != 0 {
                continue;
            }
            let page = there.page;
            match self.find_unary(there) {
                Ok(Some(part)) => {
                    unaries[count] = Inside { turn, page, part };
                    count += 1;
                }
                Ok(None) => {}
                Err(_) => failed |= 1 << turn,
            }
        }
        let (mut candidates, mut left) = ([Inside::<Candidates>::default(); AT_ONCE], 0);
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

/// Some looks, compiled for this processor.
struct Group<'a, P> {
    lookup: Lookup<'a, P>,
    hashes: &'a [u64],
}

impl<P: PageWords> Work for Group<'_, P> {
    type Output = (u64, u64);

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) -> (u64, u64) {
        self.lookup.look_up(self.hashes, cpu)
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
        let Some(unary) = lookup.find_unary(&located).ok()? else {
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
