//! Packing: a rising stream of fingerprints becomes segments.

use std::ops::Range;

use super::merge::{Changes, merge};
use super::sorted_run::SortedRun;
use super::unplaced::UnplacedSegment;
use crate::file::directory_ref::TARGET_PAGES;
use crate::fingerprint::page::read::ReadWhole;
use crate::fingerprint::page::{age_base, longest};
use crate::page::PAGE_BYTES;
use crate::page::ages::Ages;
use crate::sys::simd::dispatch::{self, Baseline, Cpu, Work};

/// Where the search for the length of the first page begins.
const FIRST_GUESS: usize = 1400;

/// Packs fingerprints into pages, each as full as it can be, and pages into segments.
///
/// A page ends where the next one's first fingerprint lies. So the last fingerprints wait until more have come.
#[derive(Debug)]
pub(crate) struct Packer {
    draft: UnplacedSegment,
    /// The first fingerprint that the next page may hold.
    first: u64,
    /// Fingerprints that are in no page yet.
    pending: SortedRun,
    guess: usize,
    /// How many pages a segment is to have, about.
    target: usize,
    ages: Ages,
    /// The fingerprints of the page that is merged.
    decoded: Vec<u64>,
}

impl Packer {
    /// Begins with a segment whose range begins with `first`.
    pub(crate) fn begin(first: u64) -> Self {
        Self::aiming_at(TARGET_PAGES, first, Vec::new())
    }

    /// Does the same, with segments of about this many pages, at least one. Takes memory that is free for pages.
    pub(crate) fn aiming_at(target: usize, first: u64, memory: Vec<u8>) -> Self {
        // With more, a segment could have more pages than its entry may name.
        assert!((1..=TARGET_PAGES).contains(&target), "{target} pages");
        Self {
            draft: UnplacedSegment::within(memory),
            first,
            pending: SortedRun::default(),
            guess: FIRST_GUESS,
            target,
            ages: Ages::NONE,
            decoded: Vec::new(),
        }
    }

    /// Packs numbers with ages, from the first number of a fingerprint on.
    pub(crate) fn with_ages(self, ages: Ages) -> Self {
        assert_eq!(ages.first_of(self.first), self.first);
        Self { ages, ..self }
    }

    /// Packs fingerprints, all above those packed before.
    pub(crate) fn put(&mut self, added: &[u64]) {
        let changes = Changes {
            added,
            removed: &[],
        };
        self.decoded.clear();
        dispatch::run_wide(Put(self, changes));
    }

    /// Packs the fingerprints of a page with changes of its range, those that are not too old; `None` if the page holds
    /// anything else than as many of its range, in order, as it says. Its CRC was checked before. Returns how many it holds.
    pub(crate) fn put_page(
        &mut self,
        page: &[u8; PAGE_BYTES],
        range: Range<u64>,
        changes: Changes<'_>,
    ) -> Option<usize> {
        self.decoded.clear();
        let base = age_base(page, self.ages.bits())?;
        if !dispatch::run_wide(ReadWhole(page, range, &mut self.decoded)) {
            return None;
        }
        let count = self.decoded.len();
        self.ages.bring(base, &mut self.decoded);
        dispatch::run_wide(Put(self, changes));
        Some(count)
    }

    /// Returns the fingerprints of the page packed last, but for those that were too old.
    pub(crate) fn decoded(&self) -> &[u64] {
        &self.decoded
    }

    /// Returns how many pages are packed.
    pub(crate) fn pages(&self) -> usize {
        self.draft.pages()
    }

    /// Returns a segment if one is complete. Asked each time that something was packed, the packer keeps no more than two
    /// segments and what came last.
    pub(crate) fn take_full(&mut self) -> Option<UnplacedSegment> {
        self.draft.take_full(self.target)
    }

    /// Packs what is left, up to the end of its range. There is at least one segment, which may have no fingerprints.
    pub(crate) fn finish(mut self, end: u64) -> Vec<UnplacedSegment> {
        dispatch::run_wide(Pack(&mut self, end));
        // A fingerprint that is left would be in no page.
        assert!(self.pending.as_slice().is_empty());
        if self.draft.pages() == 0 {
            self.draft.push(&[], self.first..end, self.ages, Baseline);
        }
        self.draft.cut(self.target)
    }

    /// Packs what makes full pages; with the end of the range, all there is.
    #[inline(always)]
    fn pack(&mut self, end: Option<u64>, cpu: impl Cpu) {
        while let rest @ [.., last] = self.pending.as_slice() {
            let behind = end.unwrap_or(last + 1);
            let count = longest(rest, (self.first, behind), self.ages, self.guess);
            if count == rest.len() && end.is_none() {
                break;
            }
            assert!(count > 0, "a page without the key that begins it");
            let next = rest.get(count).map(|one| self.ages.first_of(*one));
            let next = next.unwrap_or(behind);
            self.draft
                .push(&rest[..count], self.first..next, self.ages, cpu);
            (self.first, self.guess) = (next, count);
            self.pending.drop_front(count);
        }
    }
}

/// Merging what was decoded, and packing.
struct Put<'a>(&'a mut Packer, Changes<'a>);

impl Work for Put<'_> {
    type Output = ();

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) {
        let Put(packer, changes) = self;
        let before = packer.pending.as_slice().len();
        let ages = packer.ages;
        merge(&packer.decoded, changes, ages, &mut packer.pending, cpu);
        let (held, merged) = packer.pending.as_slice().split_at(before);
        // A look-up would miss a fingerprint that comes behind a greater one.
        assert!(merged.is_empty() || held.last() < merged.first());
        packer.pack(None, cpu);
    }
}

/// Packing what is left.
struct Pack<'a>(&'a mut Packer, u64);

impl Work for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<C: Cpu>(self, cpu: C) {
        let Pack(packer, end) = self;
        packer.pack(Some(end), cpu);
    }
}
