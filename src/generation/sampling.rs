//! Which keys are sampled: a share of all keys, chosen by their hashes alone.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::file::section::MAX_RARITY;
use crate::file::{Header, Section};

/// The bytes of a sampled hash.
const HASH_BYTES: f64 = 8.0;
/// One key in 2^12, unless that takes too much space.
const LEAST_RARITY: u32 = 12;
/// The maximum size of a sample, relative to the filter.
const MAX_SAMPLED_SHARE: f64 = 0.01;

/// A sampled key is one whose masked bits are those of the seed.
const _: () = assert!(LEAST_RARITY < MAX_RARITY && MAX_RARITY < u64::BITS);

/// Selects the sampled keys: one in 2^`rarity`, by the lowest bits of their hashes. The page comes from the highest
/// bits, and probes from all bits mixed, so a sampled key is as likely to be a false positive as any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sampling {
    salt: u64,
    mask: u64,
}

impl Sampling {
    pub(crate) fn of(header: &Header, section: &Section) -> Self {
        Self {
            salt: crate::codec::u64_at(&header.seed, 8),
            mask: mask_of(section.rarity),
        }
    }

    #[inline]
    pub(crate) fn has(self, hash: u64) -> bool {
        (hash ^ self.salt) & self.mask == 0
    }
}

/// The sample that measures a store's real false-positive rate.
#[derive(Debug)]
pub(crate) struct FprSample {
    /// Which keys are sampled, if any.
    pub(crate) sampling: Option<Sampling>,
    /// The lost keys that this handle has noted.
    pub(crate) noted: Mutex<HashSet<u64>>,
}

fn mask_of(rarity: u32) -> u64 {
    // With 0 each key would be sampled. A superblock that says so was refused.
    assert!((1..=MAX_RARITY).contains(&rarity), "{rarity}");
    (1 << rarity) - 1
}

/// Returns how rare sampled keys must be in a filter of `bytes` bytes for `capacity` keys.
pub(crate) fn rarity_for(capacity: u64, bytes: u64) -> u32 {
    assert!(bytes > 0, "a filter without pages");
    let share =
        |rarity: u32| HASH_BYTES * capacity as f64 / 2_f64.powi(rarity as i32) / bytes as f64;
    (LEAST_RARITY..MAX_RARITY)
        .find(|rarity| share(*rarity) <= MAX_SAMPLED_SHARE)
        .unwrap_or(MAX_RARITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::finalise;

    #[test]
    fn a_sample_is_a_hundredth_of_its_filter_at_most() {
        assert_eq!(rarity_for(1_000_000_000, 1_200_000_000), 12);
        // Half of the answers are wrong, at less than one and a half bits per key.
        assert_eq!(rarity_for(1_000_000_000, 181_000_000), 13);
        assert_eq!(rarity_for(u64::MAX, 4096), MAX_RARITY);
        for bytes in [4096, 100_000, 1 << 30] {
            for capacity in [100, 1 << 20, 1 << 30] {
                let rarity = rarity_for(capacity, bytes);
                let takes = 8.0 * capacity as f64 / 2_f64.powi(rarity as i32);
                assert!(rarity == MAX_RARITY || takes <= bytes as f64 / 100.0);
            }
        }
    }

    #[test]
    fn as_many_are_sampled_as_it_says() {
        for rarity in [1, 4, 12] {
            let sampling = Sampling {
                salt: 0x5EED,
                mask: mask_of(rarity),
            };
            let count = (0..1 << 20)
                .filter(|key| sampling.has(finalise(*key)))
                .count();
            let mean = (1_u64 << (20 - rarity)) as f64;
            assert!(
                (count as f64 - mean).abs() < 5.0 * mean.sqrt(),
                "{count} of {mean}"
            );
        }
    }
}
