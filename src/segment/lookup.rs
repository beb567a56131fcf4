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
/// The word of a page with the first fingerprint of its range: there a look into the page begins.
const FRONT: usize = 2;
/// A word in the second line of a page.
const SECOND_LINE: usize = 8;
/// Pages among which a fingerprint nearly always lies: a line of fences.
const NEAR_FENCES: u64 = 8;

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

/// How far one look has come.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    fingerprint: u64,
    /// The first fingerprint of its page, once that is known.
    first: u64,
    segment: usize,
    /// Within the segment, and once it is found for certain within the file.
    page: u64,
    state: State,
}

/// What the page has said so far.
#[derive(Debug, Clone, Copy, Default)]
enum State {
    /// Nothing.
    #[default]
    Begun,
    Unary(Unary),
    Candidates(Candidates),
    Absent,
    /// A page that the look needs is damaged.
    Failed,
}

impl<P: PageWords> Lookup<'_, P> {
    /// Calls `each` with the answer for each hash, in their order; `None` if a page on the way is damaged.
    pub(crate) fn contains_all(&self, hashes: &[u64], mut each: impl FnMut(Option<bool>)) {
        for some in hashes.chunks(AT_ONCE) {
            cpu_dispatch::run(Group {
                lookup: *self,
                hashes: some,
                each: &mut each,
            });
        }
    }

    /// Returns the answer for one hash.
    pub(crate) fn contains(&self, hash: u64) -> Option<bool> {
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

    /// Returns the page of the file on which a hash lies, ; `None` without segments, or if their fences are damaged.
    pub(crate) fn page_of(&self, hash: u64) -> Option<u64> {
        if self.segments.is_empty() {
            return None;
        }
        let look = self.begin(hash);
        self.pages.load_fences(look.segment).ok()?;
        Some(self.segments[look.segment].first_page + self.page_by_fences(&look))
    }

    /// Checks the pages on the way of a hash.
    pub(crate) fn check_way(&self, hash: u64) -> Result<(), SegmentFault> {
        if self.segments.is_empty() {
            return Ok(());
        }
        self.try_find_page(&mut self.begin(hash))
    }

    /// Finds a hash's segment and asks for its fence.
    #[inline(always)]
    fn begin(&self, hash: u64) -> Look {
        let fingerprint = self.space.fingerprint(hash);
        let segment = self.index.segment_of(hash, fingerprint);
        let own = &self.segments[segment];
        let range = range(self.segments, segment, self.space);
        let page = fences::likely_page(own.pages, range, fingerprint);
        self.pages.prefetch_fence(segment, page);
        Look {
            fingerprint,
            first: 0,
            segment,
            page,
            state: State::Begun,
        }
    }

    /// Finds the page by its fence and asks for its front.
    #[inline(always)]
    fn find_page(&self, look: &mut Look) {
        let own = &self.segments[look.segment];
        if self.pages.load_fences(look.segment).is_err() {
            look.state = State::Failed;
            return;
        }
        let page = match self.page_near(look) {
            Some(page) => page,
            None => self.page_by_fences(look),
        };
        look.first = self.pages.fence(look.segment, page);
        look.page = own.first_page + page;
        self.pages.prefetch(look.page, FRONT);
        // Where the later groups of a page begin stands in the second line.
        let next = match page + 1 < u64::from(own.pages) {
            true => self.pages.fence(look.segment, page + 1),
            false => range(self.segments, look.segment, self.space).end,
        };
        let passed = look.fingerprint.saturating_sub(look.first);
        if passed > next.saturating_sub(look.first) / 2 {
            self.pages.prefetch(look.page, SECOND_LINE);
        }
    }

    /// Returns the page if it is one of the few around the likely one, by comparing with the fences of all of them: a
    /// search would not know where to go. `None` if it is not.
    #[inline(always)]
    fn page_near(&self, look: &Look) -> Option<u64> {
        let own = &self.segments[look.segment];
        let start = look.page.saturating_sub(NEAR_FENCES / 2);
        if start + NEAR_FENCES > u64::from(own.pages) {
            return None;
        }
        let mut passed = 0;
        for near in 0..NEAR_FENCES {
            let fence = self.pages.fence(look.segment, start + near);
            passed += u64::from(fence <= look.fingerprint);
        }
        (1..NEAR_FENCES)
            .contains(&passed)
            .then(|| start + passed - 1)
    }

    #[inline(always)]
    fn page_by_fences(&self, look: &Look) -> u64 {
        let own = &self.segments[look.segment];
        let fence = |page: u64| self.pages.fence(look.segment, page);
        fences::page_of(fence, own.pages, look.page, look.fingerprint)
    }

    /// Does the same as [`find_page`](Self::find_page) and the check of the page found, with the fault.
    fn try_find_page(&self, look: &mut Look) -> Result<(), SegmentFault> {
        let own = &self.segments[look.segment];
        self.pages.load_fences(look.segment)?;
        let page = self.page_by_fences(look);
        let fence = self.pages.fence(look.segment, page);
        self.pages
            .check_list(look.segment, own.first_page + page, fence)
    }

    /// Reads the page's front and asks for its unary bits.
    #[inline(always)]
    fn find_unary(&self, look: &mut Look) {
        if matches!(look.state, State::Failed) {
            return;
        }
        let checked = self.pages.check_list(look.segment, look.page, look.first);
        if checked.is_err() {
            look.state = State::Failed;
            return;
        }
        let word = self.pages.page(look.page);
        let offset = look.fingerprint.wrapping_sub(word(FRONT));
        look.state = match Unary::of(word, offset) {
            Some(unary) => {
                for index in unary.words() {
                    self.pages.prefetch(look.page, index % PAGE_WORDS);
                }
                State::Unary(unary)
            }
            None => State::Absent,
        };
    }

    /// Reads the unary bits and asks for the low parts.
    #[inline(always)]
    fn find_candidates(&self, look: &mut Look, cpu: impl Cpu) {
        let State::Unary(unary) = look.state else {
            return;
        };
        look.state = match unary.candidates(self.pages.page(look.page), cpu) {
            Some(candidates) => {
                self.pages
                    .prefetch(look.page, candidates.word() % PAGE_WORDS);
                State::Candidates(candidates)
            }
            None => State::Absent,
        };
    }

    #[inline(always)]
    fn end(&self, look: &Look) -> Option<bool> {
        match look.state {
            State::Candidates(candidates) => Some(candidates.contain(self.pages.page(look.page))),
            State::Failed => None,
            _ => Some(false),
        }
    }
}

/// Some looks, compiled for this processor.
struct Group<'a, P, E> {
    lookup: Lookup<'a, P>,
    hashes: &'a [u64],
    each: &'a mut E,
}

impl<P: PageWords, E: FnMut(Option<bool>)> Work for Group<'_, P, E> {
    type Output = ();

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) {
        let lookup = &self.lookup;
        if lookup.segments.is_empty() {
            self.hashes.iter().for_each(|_| (self.each)(Some(false)));
            return;
        }
        let mut looks = [Look::default(); AT_ONCE];
        let looks = &mut looks[..self.hashes.len()];
        // Plain loops: what goes through the iterators' own functions is compiled for every processor.
        for (look, hash) in looks.iter_mut().zip(self.hashes) {
            *look = lookup.begin(*hash);
        }
        for look in &mut *looks {
            lookup.find_page(look);
        }
        for look in &mut *looks {
            lookup.find_unary(look);
        }
        for look in &mut *looks {
            lookup.find_candidates(look, cpu);
        }
        for look in looks {
            (self.each)(lookup.end(look));
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
        if lookup.segments.is_empty() {
            return Some(false);
        }
        let mut look = lookup.begin(self.hash);
        lookup.find_page(&mut look);
        lookup.find_unary(&mut look);
        lookup.find_candidates(&mut look, cpu);
        lookup.end(&look)
    }
}
