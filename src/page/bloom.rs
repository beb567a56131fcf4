//! The Bloom filter inside one page: `k` bits a key.
//!
//! Applying is idempotent and monotone, so a page that a crash left half old and half new is mended
//! by applying the same keys again.

use super::{PAGE_BYTES, PAYLOAD_OFFSET, count_bits, probes};

const WORDS: usize = PAGE_BYTES / 8;
/// Bit 0 of the payload, counted from the page's first bit.
const FIRST: usize = PAYLOAD_OFFSET * 8;

/// Whether all bits of the key are set, where `word` gives the page's 64-bit words.
#[inline]
pub(crate) fn contains(word: impl Fn(usize) -> u64, probes: u32, hash: u64) -> bool {
    probes::all(hash, probes, |bit| {
        let bit = FIRST + bit;
        word(bit / 64) & (1 << (bit % 64)) != 0
    })
}

/// Whether the key's first two bits are set, or all if it has fewer. In a page that is half full,
/// three in four absent keys are known by them.
#[inline]
pub(crate) fn begins(word: impl Fn(usize) -> u64, probes: u32, hash: u64) -> bool {
    contains(word, probes.min(2), hash)
}

/// The words of its page in which the key's first two bits lie, for a prefetch.
#[inline]
pub(crate) fn first_words(hash: u64) -> [usize; 2] {
    probes::first(hash).map(|bit| (FIRST + bit) / 64)
}

/// The words of its page in which the key's bits lie, for a prefetch.
#[inline]
pub(crate) fn each_word(hash: u64, probes: u32, mut each: impl FnMut(usize)) {
    probes::each(hash, probes, |bit| each((FIRST + bit) / 64));
}

/// Sets the bits of each key and answers how many bits of the page are set afterwards. They are
/// counted: the page's own count is as its writer left it, which no CRC makes true.
pub(crate) fn apply(page: &mut [u8], probes: u32, hashes: &[u64]) -> u32 {
    // A page of known length spares the bounds checks below.
    if let Some(page) = page.first_chunk_mut::<PAGE_BYTES>() {
        let (words, _) = page.as_chunks_mut::<8>();
        for hash in hashes {
            probes::each(*hash, probes, |bit| {
                let bit = FIRST + bit;
                let word = &mut words[bit / 64 % WORDS];
                *word = (u64::from_le_bytes(*word) | 1 << (bit % 64)).to_le_bytes();
            });
        }
    }
    count_bits(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::u64_at;
    use crate::page::probes::twin::bits;
    use crate::page::seal;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn word(page: &[u8]) -> impl Fn(usize) -> u64 + '_ {
        |index| u64_at(page, index * 8)
    }

    proptest! {
        /// The slow twin keeps the set of bit numbers.
        #[test]
        fn equals_a_set_of_bits(
            keys in prop::collection::vec(any::<u64>(), 0..200),
            others in prop::collection::vec(any::<u64>(), 0..200),
            probes in 1_u32..40,
        ) {
            let mut page = vec![0; PAGE_BYTES];
            let set = apply(&mut page, probes, &keys);
            let set_bits: HashSet<usize> = keys
                .iter()
                .flat_map(|key| bits(*key).take(probes as usize))
                .collect();
            prop_assert_eq!(set as usize, set_bits.len());
            prop_assert_eq!(count_bits(&page), set);
            for key in keys.iter().chain(&others) {
                let twin = bits(*key).take(probes as usize).all(|bit| set_bits.contains(&bit));
                prop_assert_eq!(contains(word(&page), probes, *key), twin);
            }
            for key in &keys {
                prop_assert!(contains(word(&page), probes, *key));
            }
        }

        #[test]
        fn applying_again_changes_nothing(keys in prop::collection::vec(any::<u64>(), 0..200)) {
            let mut page = vec![0; PAGE_BYTES];
            let set = apply(&mut page, 13, &keys);
            seal(1, 1, set, &mut page);
            let before = page.clone();
            prop_assert_eq!(apply(&mut page, 13, &keys), set);
            prop_assert_eq!(page, before);
        }
    }

    /// A page that says it has more bits than there are, its CRC right: the fuzzer made one.
    #[test]
    fn a_count_that_can_not_be_is_not_believed() {
        let mut page = vec![0; PAGE_BYTES];
        seal(1, 1, u32::MAX, &mut page);
        assert_eq!(apply(&mut page, 1, &[7]), 1);
    }
}
