//! What the pages of a layer hold that were united from those of several stores.

use std::ops::RangeInclusive;

use crate::bloom::page;
use crate::bloom::page_merge;
use crate::file::Layer;
use crate::page::{PAGE_BYTES, PAYLOAD_BITS, count_bits};
use crate::sizing::{hash_floor, keys_from_bits_set};

/// A layer whose pages are united one after another, and what they hold so far.
pub(crate) struct UnitedLayer {
    layer: Layer,
    bits: u64,
    /// Sum of the rates of its pages.
    rates: f64,
}

impl UnitedLayer {
    pub(crate) fn new(layer: Layer) -> Self {
        Self {
            layer,
            bits: 0,
            rates: 0.0,
        }
    }

    /// Adds the keys of a page of another store to those of a page of this layer. Leaves the headers alone.
    pub(crate) fn unite(into: &mut [u8], from: &[u8]) {
        page_merge::unite(into, from);
    }

    /// Takes note of a page that is complete, and returns its occupancy.
    pub(crate) fn note(&mut self, page: &[u8]) -> u32 {
        assert_eq!(page.len(), PAGE_BYTES);
        let occupancy = count_bits(page);
        self.bits += u64::from(occupancy);
        self.rates += page::rate(page, self.layer.probes);
        occupancy
    }

    /// Returns the number of keys in the layer, as its bits say, within what is `certain`.
    pub(crate) fn keys(&self, certain: RangeInclusive<u64>) -> u64 {
        assert!(self.bits <= self.layer.pages * PAYLOAD_BITS);
        let Layer { pages, probes, .. } = self.layer;
        let reported = keys_from_bits_set(self.bits, pages, probes).round() as u64;
        reported.min(*certain.end()).max(*certain.start())
    }

    /// Returns the share of absent keys that the layer answers so, if it has this many keys.
    pub(crate) fn right(&self, keys: u64) -> f64 {
        (1.0 - self.rates / self.layer.pages as f64) * (1.0 - hash_floor(keys))
    }
}
