//! Merges the pages of Bloom filters: a page of the union is the OR of their pages.
//!
//! The bits of a key in its page depend only on its hash and the number of probes, so the OR of pages is the page of
//! all their keys (FORMAT.md, "Folding and merging").

use crate::page::{PAGE_BYTES, PAYLOAD_OFFSET};

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
