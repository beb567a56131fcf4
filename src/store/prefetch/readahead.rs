//! Asking the system for pages ahead of looking at them, and giving up those that are past.

use std::ops::Range;
use std::sync::Arc;

use crate::file::LayerPages;
use crate::store::read::batch::{GROUPS_LOG2, Order};
use crate::store::read::point::with_keys;
use crate::store::read::staged::BATCH;
use crate::sys::storage::StorageFile;

/// Pages between two that are needed, at most, that are read along: one large read takes less time
/// than two small ones.
const GAP: u64 = 8;

/// Pages of a layer that are asked for ahead of those looked at, where keys are dense: what keeps a
/// disk busy with reading in order.
const PAGES_AHEAD: u64 = 2048;

/// So many pages of a walk, about, tell whether what it kept is still there.
const SAMPLE: u64 = 64;

/// Asking the system for pages ahead of looking at them.
pub(crate) struct Ahead<'a> {
    layers: &'a [Arc<LayerPages>],
    /// Keys whose pages are asked for at a time, and again as many before those are looked at.
    step: usize,
    asked_to: usize,
    pages: Vec<u64>,
    /// Up to which page each layer was left, from the last one on.
    left_to: Vec<u64>,
    /// Whether it is to be left.
    leaves: bool,
    /// Where in the file some of the pages lie that were asked for.
    pub(crate) sample: Vec<u64>,
    file: &'a dyn StorageFile,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(
        layers: &'a [Arc<LayerPages>],
        keys: usize,
        leaves: bool,
        file: &'a dyn StorageFile,
    ) -> Self {
        let pages = layers.iter().map(|layer| layer.pages()).max().unwrap_or(1);
        // As many keys as there are on the pages to be ahead by.
        let step = keys as u64 * PAGES_AHEAD / 2 / pages.max(1);
        Self {
            layers,
            step: (step as usize).max(BATCH),
            asked_to: 0,
            pages: Vec::new(),
            left_to: vec![0; layers.len()],
            leaves,
            sample: Vec::new(),
            file,
        }
    }

    /// Asks for what is needed from `first` on and was not asked for, unless it is far off.
    pub(crate) fn ask(&mut self, order: &Order<'_>, first: usize) {
        self.asked_to = self.asked_to.max(first);
        let end = order.keys.count().min(first + BATCH + self.step);
        while self.asked_to < end {
            let to = order.keys.count().min(self.asked_to + self.step);
            self.ask_for(order, self.asked_to..to);
            self.asked_to = to;
            self.leave(order, first);
        }
    }

    /// Gives up the memory of the pages before those of the key at `first`. It would go sooner or later, where a
    /// filter is larger than memory; but what goes first must not be a write buffer.
    fn leave(&mut self, order: &Order<'_>, first: usize) {
        if order.places.is_none() || !self.leaves {
            return;
        }
        let mut hash = [0];
        order.hashes(first..first + 1, &mut hash);
        for (layer, left_to) in with_keys(self.layers).zip(&mut self.left_to) {
            // Few keys leave little in memory, and to look for it takes time.
            if !is_dense(order, layer) {
                continue;
            }
            // Keys come in about the order of the pages: one in so many parts of them may be before it.
            let page = layer.page_of(hash[0]);
            let page = page.saturating_sub(layer.pages() >> GROUPS_LOG2);
            if page > *left_to {
                layer.leave(*left_to..page, self.file);
                *left_to = page;
            }
        }
    }

    /// Asks for the pages of some keys, without waiting for them.
    fn ask_for(&mut self, order: &Order<'_>, keys: Range<usize>) {
        let mut hashes = vec![0; keys.len()];
        order.hashes(keys.clone(), &mut hashes);
        let pages = &mut self.pages;
        let count = order.keys.count() as u64;
        let all: u64 = with_keys(self.layers).map(LayerPages::pages).sum();
        for layer in with_keys(self.layers) {
            // As many of each layer as its share of the pages.
            let every = (count * all / (SAMPLE * layer.pages())).max(1) as usize;
            let first = keys.start.next_multiple_of(every) - keys.start;
            let some = hashes.iter().skip(first).step_by(every);
            self.sample.extend(some.map(|hash| layer.offset_of(*hash)));
            pages.clear();
            pages.extend(hashes.iter().map(|hash| layer.page_of(*hash)));
            pages.sort_unstable();
            for run in pages.chunk_by(|a, b| b - a <= GAP) {
                if let [first, .., last] | [first @ last] = run {
                    layer.ask_for(*first..*last + 1);
                }
            }
        }
    }
}

/// Whether a walk over the keys comes by all pages in their order, or nearly.
pub(crate) fn is_sweep(order: &Order<'_>, layers: &[Arc<LayerPages>]) -> bool {
    order.places.is_some() && with_keys(layers).all(|layer| is_dense(order, layer))
}

fn is_dense(order: &Order<'_>, layer: &LayerPages) -> bool {
    order.keys.count() as u64 >= layer.pages() / GAP
}
