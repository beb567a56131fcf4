//! The Bloom filter inside one page: `k` bits per key.
//!
//! Applying is idempotent and monotone: applying the same keys again repairs a page that a crash left half old and half
//! new.

use super::blocked_probes;
use super::probe_batch::{Drawn, EIGHT, all_of_first, draws_eight};
use crate::page::{PAGE_BYTES, PAGE_WORDS, PAYLOAD_BITS, PAYLOAD_OFFSET, count_bits};
use crate::sizing::{Cell, LINE_BITS};
use crate::sys::simd::dispatch::{self, Cpu, Work};

const LINE_BYTES: usize = LINE_BITS as usize / 8;

/// Returns whether all bits of the key are set, where `word` returns the page's 64-bit words.
#[inline]
pub(crate) fn contains(word: impl Fn(usize) -> u64, probes: u32, hash: u64) -> bool {
    blocked_probes::all(hash, probes, is_set(word))
}

/// Returns whether the bits of the key's first `runs` runs are set. In a half-full page, the first run alone rules out
/// most absent keys.
#[inline]
pub(crate) fn begins(word: impl Fn(usize) -> u64, probes: u32, runs: u32, hash: u64) -> bool {
    blocked_probes::begins(hash, probes, runs, is_set(word))
}

#[inline(always)]
fn is_set(word: impl Fn(usize) -> u64) -> impl Fn(usize) -> bool {
    move |bit| word(bit / 64) & (1 << (bit % 64)) != 0
}

/// Returns whether the bits of the key's first run, as [drawn](super::probe_batch::first_runs), are set.
#[inline]
pub(crate) fn begins_drawn(word: impl Fn(usize) -> u64, probes: u32, run: u64) -> bool {
    all_of_first(probes, run, is_set(word))
}

/// Returns the word of its page in which the key's first bit lies, for a prefetch.
#[inline]
pub(crate) fn first_word(hash: u64) -> usize {
    blocked_probes::first(hash) / 64
}

/// Returns the word of its page in which the first bit of the key's second run lies, for a prefetch.
#[inline]
pub(crate) fn second_word(hash: u64, probes: u32) -> usize {
    blocked_probes::second(hash, probes) / 64
}

/// Returns the same as [`contains`] for one of the keys in `drawn`.
#[inline]
pub(crate) fn contains_drawn(word: impl Fn(usize) -> u64, drawn: &Drawn, key: usize) -> bool {
    drawn.all(key, is_set(word))
}

/// Calls `each` with one word of each line in which the key has bits, for a prefetch.
#[inline]
pub(crate) fn each_line(hash: u64, probes: u32, mut each: impl FnMut(usize)) {
    blocked_probes::each_first(hash, probes, |bit| each(bit / 64));
}

/// Returns the share of absent keys of the page that find all their bits set, given the bits that actually are: the
/// product over the runs of probes of the mean over the lines (FORMAT.md, "Probes").
pub(crate) fn rate(page: &[u8], probes: u32) -> f64 {
    let length = Cell::Bit.run_length(probes);
    let (mut of_run, mut of_one) = (0.0, 0.0);
    for (line, bytes) in page[..PAGE_BYTES].chunks_exact(LINE_BYTES).enumerate() {
        let payload = &bytes[if line == 0 { PAYLOAD_OFFSET } else { 0 }..];
        let bits = payload.len() as f64 * 8.0;
        let words = payload.as_chunks::<8>().0.iter();
        let set: u32 = words
            .map(|word| u64::from_le_bytes(*word).count_ones())
            .sum();
        let set = f64::from(set);
        let drawn = |turn| (set - f64::from(turn)).max(0.0) / (bits - f64::from(turn));
        of_run += bits * (0..length).map(drawn).product::<f64>();
        of_one += set;
    }
    let share = |sum: f64, times: u32| (sum / PAYLOAD_BITS as f64).powf(f64::from(times));
    share(of_run, probes / length) * share(of_one, probes % length)
}

/// Sets the bits of each key and returns how many bits of the page are set afterwards. It counts them: the page's own
/// count is whatever its writer left, and no CRC makes that true.
pub(crate) fn apply(page: &mut [u8], probes: u32, hashes: &[u64]) -> u32 {
    // A shorter one would get none of the keys.
    assert_eq!(page.len(), PAGE_BYTES);
    dispatch::run(Apply {
        page,
        probes,
        hashes,
    })
}

struct Apply<'a> {
    page: &'a mut [u8],
    probes: u32,
    hashes: &'a [u64],
}

impl Work for Apply<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<C: Cpu>(self, _cpu: C) -> u32 {
        // The known length of the page avoids the bounds checks below.
        if let Some(page) = self.page.first_chunk_mut::<PAGE_BYTES>() {
            let (words, _) = page.as_chunks_mut::<8>();
            let mut set = |bit: usize| {
                let word = &mut words[bit / 64 % PAGE_WORDS];
                *word = (u64::from_le_bytes(*word) | 1 << (bit % 64)).to_le_bytes();
            };
            let (eights, rest) = match draws_eight() {
                true => self.hashes.as_chunks(),
                false => (&[][..], self.hashes),
            };
            let mut drawn = Drawn::new(self.probes);
            for hashes in eights {
                drawn.draw(hashes);
                for key in 0..EIGHT {
                    drawn.each(key, &mut set);
                }
            }
            for hash in rest {
                blocked_probes::each(*hash, self.probes, &mut set);
            }
        }
        count_bits(self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::blocked_probes::twin::bits;
    use crate::codec::u64_at;
    use crate::hash::finalise;
    use crate::page::Binding;
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
                .flat_map(|key| bits(*key, probes))
                .collect();
            prop_assert_eq!(set as usize, set_bits.len());
            prop_assert_eq!(count_bits(&page), set);
            for key in keys.iter().chain(&others) {
                let twin = bits(*key, probes).iter().all(|bit| set_bits.contains(bit));
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
            Binding::NONE.seal(1, 1, set, &mut page);
            let before = page.clone();
            prop_assert_eq!(apply(&mut page, 13, &keys), set);
            prop_assert_eq!(page, before);
        }
    }

    /// A page claims more bits than exist, with a right CRC: the fuzzer found one.
    #[test]
    fn a_count_that_can_not_be_is_not_believed() {
        let mut page = vec![0; PAGE_BYTES];
        Binding::NONE.seal(1, 1, u32::MAX, &mut page);
        assert_eq!(apply(&mut page, 1, &[7]), 1);
    }

    /// The slow twin looks up as many absent keys as it takes.
    #[test]
    fn the_rate_is_that_of_absent_keys() {
        for (keys, probes) in [(8000, 3), (5000, 7), (2000, 8), (900, 21)] {
            let mut page = vec![0; PAGE_BYTES];
            let own: Vec<u64> = (0..keys).map(finalise).collect();
            apply(&mut page, probes, &own);
            let (asked, rate) = (400_000, rate(&page, probes));
            let found = (keys..keys + asked)
                .filter(|key| contains(word(&page), probes, finalise(*key)))
                .count() as f64;
            let expected = asked as f64 * rate;
            assert!(
                (found - expected).abs() <= 4.0 * expected.sqrt() + 1.0,
                "{found} {expected}"
            );
        }
    }

    #[test]
    fn the_rate_of_an_empty_page_and_of_a_full_one() {
        for probes in [1, 2, 3, 7, 20, 21, 64] {
            assert_eq!(rate(&[0; PAGE_BYTES], probes), 0.0);
            assert_eq!(rate(&[0xFF; PAGE_BYTES], probes), 1.0);
        }
    }
}
