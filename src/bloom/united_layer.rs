//! Merges the pages of Bloom filters, and counts what they hold then: a page of the union is the OR of their pages.
//!
//! The bits of a key in its page depend only on its hash and the number of probes, so the OR of pages is the page of
//! all their keys (FORMAT.md, "Folding and merging").

use std::ops::RangeInclusive;

use crate::bloom::page;
use crate::file::Layer;
use crate::page::{PAGE_BYTES, PAYLOAD_BITS, PAYLOAD_OFFSET, count_bits};
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
        unite(into, from);
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

/// Adds the bits of `from` to `into`. Leaves the headers alone.
pub(crate) fn unite(into: &mut [u8], from: &[u8]) {
    debug_assert_eq!(into.len(), from.len());
    let into = into[PAYLOAD_OFFSET..PAGE_BYTES].as_chunks_mut::<8>().0;
    let from = from[PAYLOAD_OFFSET..PAGE_BYTES].as_chunks::<8>().0;
    for (into, from) in into.iter_mut().zip(from) {
        *into = (u64::from_le_bytes(*into) | u64::from_le_bytes(*from)).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom;
    use crate::page::{Binding, count_bits};
    use proptest::prelude::*;

    proptest! {
        /// The slow twin is a page that received the keys of both.
        #[test]
        fn a_page_of_both_has_the_keys_of_both(
            keys in prop::collection::vec(any::<u64>(), 0..200),
            others in prop::collection::vec(any::<u64>(), 0..200),
            probes in 1_u32..40,
        ) {
            let page_of = |keys: &[u64]| {
                let mut page = vec![0; PAGE_BYTES];
                let set = bloom::page::apply(&mut page, probes, keys);
                Binding::NONE.seal(7, 1, set, &mut page);
                page
            };
            let mut twin = page_of(&keys);
            bloom::page::apply(&mut twin, probes, &others);
            let mut page = page_of(&keys);
            unite(&mut page, &page_of(&others));
            prop_assert_eq!(count_bits(&page), count_bits(&twin));
            prop_assert_eq!(page, twin);
        }
    }
}
