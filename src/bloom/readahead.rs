//! Requests pages from the system ahead of the look-ups, and drops those behind them from memory.

use std::ops::Range;
use std::sync::Arc;

use crate::bloom::layer_pages::{LayerPages, with_keys};
use crate::prefetch::lookup_order::{GROUPS_LOG2, LookupOrder};
use crate::prefetch::{BATCH, BehindWalk, SAMPLE_PAGES};
use crate::sys::storage::StorageFile;

/// The maximum number of unneeded pages between two needed ones that are read along: one large read takes less time
/// than two small ones.
const GAP: u64 = 8;

/// The number of pages of a layer that are requested ahead of the look-ups if keys are dense: enough to keep a disk
/// busy with sequential reads.
const PAGES_AHEAD: u64 = 2048;

/// The pages that one walk over the keys of a part reads.
pub(crate) struct Readahead<'a> {
    layers: &'a [Arc<LayerPages>],
    file: &'a dyn StorageFile,
    /// The number of keys whose pages are requested at a time. The next request, for as many keys again, goes out
    /// before the look-ups get there.
    step: usize,
    asked_to: usize,
    pages: Vec<u64>,
    passed: BehindWalk,
    /// The page up to which each layer was dropped, the last layer first. What lies before the first turn is another walk's,
    /// which may still be there.
    dropped_to: Vec<Option<u64>>,
    /// The file offsets of some of the requested pages.
    pub(crate) sample: Vec<u64>,
}

impl<'a> Readahead<'a> {
    pub(crate) fn new(
        layers: &'a [Arc<LayerPages>],
        file: &'a dyn StorageFile,
        keys: usize,
        passed: BehindWalk,
    ) -> Self {
        let pages = layers.iter().map(|layer| layer.pages()).max().unwrap_or(1);
        // As many keys as the pages ahead hold.
        let step = keys as u64 * PAGES_AHEAD / 2 / pages.max(1);
        Self {
            layers,
            file,
            step: (step as usize).max(BATCH),
            asked_to: 0,
            pages: Vec::new(),
            passed,
            dropped_to: vec![None; layers.len()],
            sample: Vec::new(),
        }
    }

    /// Requests what the look-ups need from turn `first` on, up to the readahead distance.
    pub(crate) fn advance(&mut self, order: &LookupOrder<'_>, first: usize) {
        self.asked_to = self.asked_to.max(first);
        let end = order.count().min(first + BATCH + self.step);
        while self.asked_to < end {
            let to = order.count().min(self.asked_to + self.step);
            self.will_need(order, self.asked_to..to);
            self.asked_to = to;
            self.drop_passed(order, first);
        }
    }

    /// Drops the pages before those of turn `first` from memory. The system would evict them sooner or later if the
    /// filter is larger than memory, but it must not evict a write buffer first.
    fn drop_passed(&mut self, order: &LookupOrder<'_>, first: usize) {
        if !order.is_by_page() || self.passed == BehindWalk::Kept {
            return;
        }
        let mut hash = [0];
        order.hashes(first..first + 1, &mut hash);
        for (layer, dropped_to) in with_keys(self.layers).zip(&mut self.dropped_to) {
            // Few keys leave little in memory, and finding it takes time.
            if !is_dense(order, layer) {
                continue;
            }
            // The order is rough: within a group of keys, a later key may be on an earlier page.
            let page = layer.page_of(hash[0]);
            let page = page.saturating_sub(layer.pages() >> GROUPS_LOG2);
            let dropped_to = dropped_to.get_or_insert(page);
            if page > *dropped_to {
                layer.drop_cached(*dropped_to..page, self.file);
                *dropped_to = page;
            }
        }
    }

    /// Requests the pages of some keys without waiting for them.
    fn will_need(&mut self, order: &LookupOrder<'_>, turns: Range<usize>) {
        let mut hashes = vec![0; turns.len()];
        order.hashes(turns.clone(), &mut hashes);
        let pages = &mut self.pages;
        let count = order.count() as u64;
        let all: u64 = with_keys(self.layers).map(LayerPages::pages).sum();
        for layer in with_keys(self.layers) {
            // Each layer contributes to the sample in proportion to its pages.
            let every = (count * all / (SAMPLE_PAGES * layer.pages())).max(1) as usize;
            let first = turns.start.next_multiple_of(every) - turns.start;
            let some = hashes.iter().skip(first).step_by(every);
            self.sample.extend(some.map(|hash| layer.offset_of(*hash)));
            pages.clear();
            pages.extend(hashes.iter().map(|hash| layer.page_of(*hash)));
            pages.sort_unstable();
            for run in pages.chunk_by(|a, b| b - a <= GAP) {
                if let [first, .., last] | [first @ last] = run {
                    layer.will_need(*first..*last + 1);
                }
            }
        }
    }
}

/// Returns whether a walk over the keys passes every page in order, or nearly so.
pub(crate) fn is_sweep(order: &LookupOrder<'_>, layers: &[Arc<LayerPages>]) -> bool {
    order.is_by_page() && with_keys(layers).all(|layer| is_dense(order, layer))
}

fn is_dense(order: &LookupOrder<'_>, layer: &LayerPages) -> bool {
    order.count() as u64 >= layer.pages() / GAP
}
