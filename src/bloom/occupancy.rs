//! What the bits that are set say about a layer: its keys and its rate.

use crate::bloom::{counting_page, page};
use crate::file::Layer;
use crate::sizing::{self, Cell};

/// What the bits that are set say about a layer; see [`VerifyReport::layers`](crate::VerifyReport::layers).
///
/// Bad pages are left out. The good pages stand for what the bad ones would hold.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerOccupancy {
    /// Its pages.
    pub pages: u64,
    /// The number of good pages among them.
    pub good: u64,
    /// Bits set in all good pages together, or counters above 0.
    pub bits_set: u64,
    /// Estimate of the distinct keys that the layer was offered: `-m/k ln(1 - x/m)` for `x` of `m` bits
    /// ([`keys_from_bits_set`](crate::sizing::keys_from_bits_set) in full). Keys wrongly taken for seen are included,
    /// since their bits were set; [`LayerStats::keys`](crate::LayerStats::keys) counts only the new ones. A page that a
    /// repair has filled, so that all its keys count as seen, raises the estimate.
    ///
    /// Source: S. J. Swamidass, P. Baldi, "Mathematical correction for fingerprint similarity measures to improve
    /// chemical retrieval" (J. Chem. Inf. Model. 47, 2007).
    pub keys: f64,
    /// The rate at which the layer answers "seen" to absent keys: the mean over its pages of the rate given by the bits
    /// set in each page's lines, plus [`hash_floor`](crate::sizing::hash_floor) for the hashes. It describes these very
    /// pages, whereas [`LayerStats::fpr`](crate::LayerStats::fpr) is the mean over all pages that this number of keys
    /// may produce. 0 if no page is good.
    pub fpr: f64,
}

/// Accumulates the pages of one layer.
pub(crate) struct Occupied {
    cell: Cell,
    probes: u32,
    pages: u64,
    good: u64,
    bits_set: u64,
    /// Sum of the rates of the good pages.
    rates: f64,
}

impl Occupied {
    pub(crate) fn new(layer: &Layer) -> Self {
        Occupied {
            cell: layer.cell,
            probes: layer.probes,
            pages: layer.pages,
            good: 0,
            bits_set: 0,
            rates: 0.0,
        }
    }

    /// Adds one good page.
    pub(crate) fn page(&mut self, occupancy: u32, page: &[u8]) {
        self.good += 1;
        self.bits_set += u64::from(occupancy);
        self.rates += match self.cell {
            Cell::Counter => counting_page::rate(occupancy, self.probes),
            Cell::Bit => page::rate(page, self.probes),
        };
    }

    /// Adds `pages` blank pages.
    pub(crate) fn blank(&mut self, pages: u64) {
        self.good += pages;
    }

    pub(crate) fn result(&self) -> LayerOccupancy {
        // One that came twice would stand for keys that are not there.
        assert!(self.good <= self.pages, "{} of {}", self.good, self.pages);
        let good = self.good.max(1) as f64;
        let keys = self
            .cell
            .keys_from_set(self.bits_set, self.good, self.probes);
        let keys = keys * self.pages as f64 / good;
        let local = self.rates / good;
        LayerOccupancy {
            pages: self.pages,
            good: self.good,
            bits_set: self.bits_set,
            keys,
            fpr: local + (1.0 - local) * sizing::hash_floor(keys as u64),
        }
    }
}

/// Returns the rate of a stack of filters in which one wrong answer is enough.
pub(crate) fn together(rates: impl Iterator<Item = f64>) -> f64 {
    // Nearly the sum, and exact for a single filter.
    rates.fold(0.0, |all, rate| all + (1.0 - all) * rate)
}

/// Returns the rate expected of layers at their current fill.
pub(crate) fn expected_rate(layers: &[Layer], cell: Cell) -> f64 {
    let rate = |layer: &Layer| cell.expected_rate(layer.keys, layer.pages, layer.probes);
    together(layers.iter().map(rate))
}
