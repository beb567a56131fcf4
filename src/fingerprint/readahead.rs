//! Requests pages of segments from the system ahead of the look-ups.

use crate::fingerprint::runs::run_set::RunSet;
use crate::fingerprint::segment_sweep::SegmentSweep;
use crate::prefetch::lookup_order::LookupOrder;
use crate::prefetch::{BATCH, BehindWalk};
use crate::sys::storage::StorageFile;

/// The number of keys whose pages are requested ahead of the look-ups: enough to keep a disk busy.
const KEYS_AHEAD: usize = 4 * BATCH;

/// The maximum number of unneeded pages between two needed ones that are read along.
const SEGMENT_GAP: u64 = 2;

/// From so many keys for each page on, its lines are mostly in the processor's cache when the next key needs them.
const SHARED_FROM: u64 = 4;

/// The pages that one walk over the keys of a part reads.
pub(crate) struct SegmentReadahead<'a> {
    runs: &'a RunSet,
    file: &'a dyn StorageFile,
    behind: BehindWalk,
    asked_to: usize,
    pages: Vec<u64>,
    /// Once the walk has turned out to be one.
    sweep: Option<SegmentSweep<'a>>,
}

impl<'a> SegmentReadahead<'a> {
    pub(crate) fn new(runs: &'a RunSet, file: &'a dyn StorageFile, behind: BehindWalk) -> Self {
        Self {
            runs,
            file,
            behind,
            asked_to: 0,
            pages: Vec::new(),
            sweep: None,
        }
    }

    /// Returns the file offsets of some of the pages that were requested.
    pub(crate) fn into_sample(self) -> Vec<u64> {
        self.sweep.map_or(Vec::new(), |sweep| sweep.sample)
    }

    /// Requests what the look-ups need from turn `first` on, up to the readahead distance.
    pub(crate) fn advance(&mut self, order: &LookupOrder<'_>, first: usize) {
        if order.is_by_page() && order.count() as u64 >= self.runs.pages() {
            // Nearly all pages are needed, and a disk reads them much faster in large pieces.
            let begin = || SegmentSweep::new(self.runs, self.file, self.behind);
            self.sweep.get_or_insert_with(begin).advance(order, first);
            return;
        }
        self.asked_to = self.asked_to.max(first);
        let end = order.count().min(first + BATCH + KEYS_AHEAD);
        let mut hashes = [0; BATCH];
        while self.asked_to < end {
            let to = end.min(self.asked_to + BATCH);
            let hashes = &mut hashes[..to - self.asked_to];
            order.hashes(self.asked_to..to, hashes);
            self.asked_to = to;
            self.pages.clear();
            for hash in &*hashes {
                self.runs.add_pages_of(*hash, &mut self.pages);
            }
            self.pages.sort_unstable();
            for run in self.pages.chunk_by(|one, next| next - one <= SEGMENT_GAP) {
                if let [first, .., last] | [first @ last] = run {
                    self.runs.will_need(*first..*last + 1);
                }
            }
        }
    }
}

/// Returns whether a walk over the keys passes every page of the segments in order, or nearly so.
pub(crate) fn is_sweep(order: &LookupOrder<'_>, runs: &RunSet) -> bool {
    order.is_by_page() && order.count() as u64 >= runs.pages() / 8
}

/// Returns whether it brings several keys to each page.
pub(crate) fn shares_pages(order: &LookupOrder<'_>, runs: &RunSet) -> bool {
    order.is_by_page() && order.count() as u64 >= SHARED_FROM * runs.pages()
}
