//! How full a store is: by what it counts, which is cheap, and by the bits in its pages, which reads them all.

use crate::error::Result;
use crate::file::Layer;
use crate::page::{bloom, counting};
use crate::sizing::{self, Cell};
use crate::store::coordination::handle::Handle;
use crate::store::engine::Engine;
use crate::store::storefile::store_file::StoreFile;
use crate::store::view::{View, ViewCell};

/// How full a store is; what [`Store::fullness`](crate::Store::fullness) tells.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fullness {
    /// Keys it holds: in pages and in the write buffer, uncommitted ones too. Of a counting store, inserts less removes: a
    /// key that was inserted twice counts twice.
    pub keys: u64,
    /// Keys it takes at most, after which inserting is [`Error::Full`](crate::Error::Full), so that the false-positive
    /// rate stays what it was made for: its capacity, or where 64-bit hashes end the growth of one that grows.
    pub limit: u64,
}

impl Fullness {
    /// Keys it still takes.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.keys)
    }

    /// Keys over limit: 0 when empty, 1 when full.
    pub fn share(&self) -> f64 {
        self.keys as f64 / self.limit as f64
    }
}

/// What the bits that are set tell of a layer; see [`VerifyReport::layers`](crate::VerifyReport::layers).
///
/// Bad pages have no part in it: for what would be in them the others stand.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerOccupancy {
    /// Its pages.
    pub pages: u64,
    /// The good ones among them.
    pub good: u64,
    /// Bits set in all good pages together, or counters above 0.
    pub bits_set: u64,
    /// Estimate of the different keys that it was shown: `-m/k ln(1 - x/m)` for `x` of `m` bits
    /// ([`keys_from_bits_set`](crate::sizing::keys_from_bits_set) in full). Those that it wrongly took for seen are among
    /// them, since their bits were set; [`LayerStats::keys`](crate::LayerStats::keys) counts the new ones only. A page
    /// that a repair has filled, so that all its keys count as seen, makes it larger.
    ///
    /// Source: S. J. Swamidass, P. Baldi, "Mathematical correction for fingerprint similarity measures to improve chemical
    /// retrieval" (J. Chem. Inf. Model. 47, 2007).
    pub keys: f64,
    /// The rate at which it answers "seen" to absent keys: the mean over its pages, of each by the bits
    /// that are set in its lines, and [`hash_floor`](crate::sizing::hash_floor) for the hashes. Of these very pages, where
    /// [`LayerStats::fpr`](crate::LayerStats::fpr) is the mean over all that may come of so many keys. 0 if no page is good.
    pub fpr: f64,
}

/// Takes in the pages of one layer.
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

    /// Takes in one good page.
    pub(crate) fn page(&mut self, occupancy: u32, page: &[u8]) {
        self.good += 1;
        self.bits_set += u64::from(occupancy);
        self.rates += match self.cell {
            Cell::Counter => counting::rate(occupancy, self.probes),
            Cell::Bit => bloom::rate(page, self.probes),
        };
    }

    /// Takes in so many blank ones.
    pub(crate) fn blank(&mut self, pages: u64) {
        self.good += pages;
    }

    pub(crate) fn result(&self) -> LayerOccupancy {
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

/// The rate of a stack of filters, of which one wrong answer is enough.
pub(crate) fn together(rates: impl Iterator<Item = f64>) -> f64 {
    // Nearly the sum, and exact where there is one.
    rates.fold(0.0, |all, rate| all + (1.0 - all) * rate)
}

/// Counts the keys of an open store.
#[derive(Clone, Copy)]
pub(crate) struct KeyCounter<'a> {
    handle: &'a Handle,
    file: &'a StoreFile,
    views: &'a ViewCell,
}

impl<'a> KeyCounter<'a> {
    #[inline]
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            handle: &engine.handle,
            file: &engine.file,
            views: &engine.views,
        }
    }

    #[inline]
    pub(crate) fn fullness(&self) -> Result<Fullness> {
        self.handle.check_usable()?;
        Ok(self.fullness_of(&*self.views.current()?))
    }

    pub(crate) fn fullness_of(&self, view: &View) -> Fullness {
        Fullness {
            keys: match self.file.is_counting() {
                true => view.net_keys(),
                false => view
                    .settled_keys()
                    .saturating_add(view.active.buffer.keys()),
            },
            limit: self.file.key_limit,
        }
    }
}
