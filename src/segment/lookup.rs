//! Looking for fingerprints, several at once: what one look needs is fetched while others are looked for.

use super::directory::{range, segment_of};
use super::entry::Segment;
use super::fences;
use super::space::Space;
use crate::page::PAGE_WORDS;
use crate::page::fingerprint::contains;
use crate::page::fingerprint::read::likely_words;
use crate::sys::cpu_dispatch::{self, Work};

/// Fingerprints that are looked for together: enough to keep the memory busy, and few enough for the nearest cache.
pub(crate) const AT_ONCE: usize = 48;
/// The word of a page with the first fingerprint of its range: there a look into the page begins.
const FRONT: usize = 2;

/// The pages of a store file as words.
pub(crate) trait PageWords: Copy {
    /// Returns what reads the words of a page. Of words and pages that are not there it reads anything.
    fn page(self, number: u64) -> impl Fn(usize) -> u64 + Copy;

    /// Asks for the line of the processor's cache in which a word lies.
    fn prefetch(self, number: u64, index: usize);
}

/// The directory of a store and its pages. All pages that are looked into were checked before, or the answers are worth
/// nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup<'a, P> {
    pub(crate) segments: &'a [Segment],
    pub(crate) space: Space,
    pub(crate) pages: P,
}

/// How far one look has come.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    fingerprint: u64,
    segment: usize,
    /// Within the segment, and once it is found for certain within the file.
    page: u64,
    offset: u64,
}

impl<P: PageWords> Lookup<'_, P> {
    /// Calls `each` with the answer for each fingerprint, in their order.
    pub(crate) fn contains_all(&self, fingerprints: &[u64], mut each: impl FnMut(bool)) {
        for some in fingerprints.chunks(AT_ONCE) {
            cpu_dispatch::run(Group {
                lookup: *self,
                fingerprints: some,
                each: &mut each,
            });
        }
    }

    /// Finds a fingerprint's segment and asks for its fence.
    #[inline(always)]
    fn begin(&self, fingerprint: u64) -> Look {
        let first = |index: u64| self.segments[index as usize].first;
        let count = self.segments.len() as u64;
        let segment = segment_of(count, self.space, first, fingerprint) as usize;
        let own = &self.segments[segment];
        let range = range(self.segments, segment, self.space);
        let page = fences::likely_page(own.pages, range, fingerprint);
        let (number, index) = split(own.first_fence_page(), fences::place(page));
        self.pages.prefetch(number, index);
        Look {
            fingerprint,
            segment,
            page,
            offset: 0,
        }
    }

    /// Finds the page by its fence and asks for its front.
    #[inline(always)]
    fn find_page(&self, look: &mut Look) {
        let own = &self.segments[look.segment];
        let fence = |place: u64| {
            let (number, index) = split(own.first_fence_page(), place);
            self.pages.page(number)(index)
        };
        let page = fences::page_of(fence, own.pages, look.page, look.fingerprint);
        look.page = own.first_page + page;
        self.pages.prefetch(look.page, FRONT);
    }

    /// Asks for the bits that the look will probably need.
    #[inline(always)]
    fn find_bits(&self, look: &mut Look) {
        let word = self.pages.page(look.page);
        look.offset = look.fingerprint.wrapping_sub(word(FRONT));
        if let Some(words) = likely_words(word, look.offset) {
            for index in words {
                self.pages.prefetch(look.page, index % PAGE_WORDS);
            }
        }
    }

    #[inline(always)]
    fn end(&self, look: &Look) -> bool {
        contains(self.pages.page(look.page), look.offset)
    }
}

/// Returns page and word in it of a word that is counted from the begin of a page.
#[inline(always)]
fn split(page: u64, word: u64) -> (u64, usize) {
    let words = PAGE_WORDS as u64;
    (page + word / words, (word % words) as usize)
}

/// Some looks, compiled for this processor.
struct Group<'a, P, E> {
    lookup: Lookup<'a, P>,
    fingerprints: &'a [u64],
    each: &'a mut E,
}

impl<P: PageWords, E: FnMut(bool)> Work for Group<'_, P, E> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let lookup = &self.lookup;
        if lookup.segments.is_empty() {
            self.fingerprints.iter().for_each(|_| (self.each)(false));
            return;
        }
        let mut looks = [Look::default(); AT_ONCE];
        let looks = &mut looks[..self.fingerprints.len()];
        // Plain loops: what goes through the iterators' own functions is compiled for every processor.
        for (look, fingerprint) in looks.iter_mut().zip(self.fingerprints) {
            *look = lookup.begin(*fingerprint);
        }
        for look in &mut *looks {
            lookup.find_page(look);
        }
        for look in &mut *looks {
            lookup.find_bits(look);
        }
        for look in looks {
            (self.each)(lookup.end(look));
        }
    }
}
