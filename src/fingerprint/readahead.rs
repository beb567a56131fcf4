//! Requests pages of segments from the system ahead of the look-ups.

use crate::fingerprint::runs::run_set::RunSet;
use crate::prefetch::BATCH;
use crate::prefetch::lookup_order::LookupOrder;

/// The number of keys whose pages are requested ahead of the look-ups: enough to keep a disk busy.
const KEYS_AHEAD: usize = 4 * BATCH;

/// The maximum number of unneeded pages between two needed ones that are read along.
const SEGMENT_GAP: u64 = 2;

/// The pages that one walk over the keys of a part reads.
pub(crate) struct SegmentReadahead<'a> {
    segments: &'a RunSet,
    asked_to: usize,
    pages: Vec<u64>,
}

impl<'a> SegmentReadahead<'a> {
    pub(crate) fn new(segments: &'a RunSet) -> Self {
        Self {
            segments,
            asked_to: 0,
            pages: Vec::new(),
        }
    }

    /// Requests what the look-ups need from turn `first` on, up to the readahead distance.
    pub(crate) fn advance(&mut self, order: &LookupOrder<'_>, first: usize) {
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
                self.segments.add_pages_of(*hash, &mut self.pages);
            }
            self.pages.sort_unstable();
            for run in self.pages.chunk_by(|one, next| next - one <= SEGMENT_GAP) {
                if let [first, .., last] | [first @ last] = run {
                    self.segments.will_need(*first..*last + 1);
                }
            }
        }
    }
}

/// Returns whether a walk over the keys passes every page of the segments in order, or nearly so.
pub(crate) fn is_sweep(order: &LookupOrder<'_>, segments: &RunSet) -> bool {
    order.is_by_page() && order.count() as u64 >= segments.pages() / 8
}
