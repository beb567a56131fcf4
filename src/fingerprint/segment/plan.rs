//! How many fingerprints there must be for a rate, and how much room they take; pure arithmetic.

use super::fences::fence_pages;
use crate::file::directory_ref::TARGET_PAGES;
use crate::file::directory_ref::directory_pages;
use crate::fingerprint::page::MOST_IN_PAGE;
use crate::fingerprint::page::encode::fits;
use crate::page::PAGE_BYTES;
use crate::page::ages::Ages;
use crate::page::fingerprint_space::{FingerprintSpace, MOST_FINGERPRINTS};
use crate::sizing::{SizingError, check_rate, hash_floor};

/// The size and rate of a store of [`Kind::Fingerprint`](crate::Kind::Fingerprint), which keeps a rate up to a limit of
/// keys; pure arithmetic.
///
/// Each key is a *fingerprint*, a number below the [`space`](Self::space). The store answers "seen" for an absent key if
/// another key has its fingerprint: at a rate of keys over space, which reaches its bound when the store has as many keys
/// as its [`limit`](Self::limit). Far below its limit a store is far better than its bound, and pays for that: each key
/// takes one bit more for each halving of the keys, or for each doubling of the limit.
///
/// ```
/// use everseen::FingerprintPlan;
///
/// // At most ten billion keys, of which ten million are there.
/// let plan = FingerprintPlan::for_rate(10_000_000_000, 1e-6)?;
/// assert_eq!(plan.space(), 10_000_000_000_000_000);
/// assert!((plan.rate(10_000_000) - 1e-9).abs() < 1e-15);
/// assert!((31.0..33.0).contains(&plan.bits_per_key(10_000_000)));
/// // At the limit the rate is what was asked for, and each key takes fewer bits.
/// assert!(plan.rate(plan.limit()) <= 1e-6);
/// assert!((21.0..23.0).contains(&plan.bits_per_key(plan.limit())));
/// # Ok::<(), everseen::sizing::SizingError>(())
/// ```
///
/// Keys are counts, sizes are bytes of pages ([`PAGE_BYTES`](crate::sizing::PAGE_BYTES) each, without the header of the
/// file and pages that the next checkpoint may use again), rates are probabilities. Functions that return a bare number
/// accept any count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FingerprintPlan {
    pub(crate) limit: u64,
    pub(crate) space: FingerprintSpace,
}

impl FingerprintPlan {
    /// Plans for a rate at a limit of keys: below the limit the rate is lower.
    ///
    /// # Errors
    /// [`SizingError::CapacityZero`] without a key, [`SizingError::RateOutOfRange`] unless the rate is between 0 and 1, and
    /// [`SizingError::RateBelowFloor`] if it is below twice [`hash_floor`] of the limit: there would be more fingerprints
    /// than 2^63.
    pub fn for_rate(limit: u64, fpr: f64) -> Result<Self, SizingError> {
        if limit == 0 {
            return Err(SizingError::CapacityZero);
        }
        check_rate(fpr)?;
        let mut count = (limit as f64 / fpr).ceil();
        // Quotients are rounded: the next number up is as good a count, and keeps the bound.
        while limit as f64 / count > fpr {
            count = (count + 1.0).max(count.next_up());
        }
        let space = match count <= MOST_FINGERPRINTS as f64 {
            true => FingerprintSpace::new(count as u64),
            false => None,
        };
        match space {
            Some(space) => {
                assert!(limit as f64 / space.count() as f64 <= fpr);
                Ok(Self { limit, space })
            }
            None => Err(SizingError::RateBelowFloor {
                fpr,
                floor: hash_floor(limit),
                capacity: limit,
            }),
        }
    }

    /// Returns the largest limit for a rate: as many keys as keep it among 2^63 fingerprints. At least 1, with which
    /// [`for_rate`](Self::for_rate) says why a rate is out of reach that not even one key keeps.
    #[must_use]
    pub fn most_keys(fpr: f64) -> u64 {
        ((MOST_FINGERPRINTS as f64 * fpr) as u64).max(1)
    }

    /// Returns the most keys that the store takes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns how many fingerprints there are, 1 to 2^63: the limit over the rate.
    #[must_use]
    pub fn space(&self) -> u64 {
        self.space.count()
    }

    /// Returns the rate with this many keys: the share of the space that they take.
    #[must_use]
    pub fn rate(&self, keys: u64) -> f64 {
        (keys as f64 / self.space.count() as f64).min(1.0)
    }

    /// Returns how many keys a full page holds, on average, when the store has this many.
    fn keys_in_page(&self, keys: u64) -> u64 {
        let apart = self.space.count() as f64 / keys.max(1) as f64;
        let fits = |count: u64| {
            let width = (count as f64 * apart) as u64;
            let width = width.clamp(count, self.space.count());
            fits(count as usize, width, Ages::NONE)
        };
        let (mut least, mut most) = (1, MOST_IN_PAGE as u64);
        while least < most {
            let middle = (least + most).div_ceil(2);
            match fits(middle) {
                true => least = middle,
                false => most = middle - 1,
            }
        }
        least
    }

    /// Returns the pages that this many keys take: their own, those of fences, and both copies of the directory.
    #[must_use]
    pub fn pages(&self, keys: u64) -> u64 {
        let pages = keys.div_ceil(self.keys_in_page(keys));
        let segments = pages.div_ceil(TARGET_PAGES as u64);
        let fences = pages.div_ceil(TARGET_PAGES as u64) * fence_pages(TARGET_PAGES as u32);
        pages + fences.min(pages) + 2 * directory_pages(segments)
    }

    /// Returns the bytes of the pages that this many keys take.
    #[must_use]
    pub fn bytes(&self, keys: u64) -> u64 {
        self.pages(keys).saturating_mul(PAGE_BYTES as u64)
    }

    /// Returns the bits that each key takes when there are this many, at least one, all pages counted.
    #[must_use]
    pub fn bits_per_key(&self, keys: u64) -> f64 {
        let bits = self.pages(keys) as f64 * PAGE_BYTES as f64 * 8.0;
        bits / keys.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_plan_keeps_its_rate(limit in 1_u64..1 << 50, exponent in -11.0_f64..-0.01) {
            let fpr = 10_f64.powf(exponent);
            match FingerprintPlan::for_rate(limit, fpr) {
                Ok(plan) => {
                    prop_assert!(plan.rate(limit) <= fpr);
                    prop_assert!(plan.rate(limit) * (1.0 + 2.0 / limit as f64) > fpr * (1.0 - 1e-12));
                    prop_assert!(plan.rate(limit / 2) <= fpr / 2.0);
                    prop_assert!(limit <= FingerprintPlan::most_keys(fpr).saturating_add(1));
                }
                Err(SizingError::RateBelowFloor { floor, .. }) => {
                    prop_assert!(fpr < 2.000_001 * floor);
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }

        #[test]
        fn room_follows_from_the_rate(keys in 10_000_000_u64..1 << 36, more in 0_u32..10, exponent in 2.0_f64..9.0) {
            let plan = FingerprintPlan::for_rate(keys << more, 10_f64.powf(-exponent));
            if let Ok(plan) = plan {
                let ideal = -plan.rate(keys).log2();
                let beside = plan.bits_per_key(keys) - ideal;
                prop_assert_eq!(plan.bytes(keys), plan.pages(keys) * 4096);
                prop_assert!(beside > 1.44 && beside < 3.1, "{beside} beside {ideal}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |limit, fpr| FingerprintPlan::for_rate(limit, fpr).unwrap_err();
        assert_eq!(refused(0, 0.01), SizingError::CapacityZero);
        // As many keys as there may be are at least one, so that the reason is the rate.
        for fpr in [1e-19, 1e-300] {
            let below = SizingError::RateBelowFloor {
                fpr,
                floor: hash_floor(1),
                capacity: 1,
            };
            assert_eq!(refused(FingerprintPlan::most_keys(fpr), fpr), below);
        }
        for got in [0.0, 1.0, -1.0, f64::INFINITY] {
            assert_eq!(refused(1, got), SizingError::RateOutOfRange { got });
        }
        let (fpr, capacity) = (1e-9, 1 << 40);
        assert_eq!(
            refused(capacity, fpr),
            SizingError::RateBelowFloor {
                fpr,
                floor: hash_floor(capacity),
                capacity,
            }
        );
        let largest = FingerprintPlan::for_rate(1 << 62, 0.5).unwrap();
        assert_eq!(largest.space.count(), MOST_FINGERPRINTS);
    }

    /// What issue 20 wants of the kind, from the plan alone.
    #[test]
    fn a_fixed_store_takes_what_was_wanted() {
        for keys in [10_000_000, 100_000_000, 1_000_000_000] {
            let fixed = FingerprintPlan::for_rate(keys, 1e-6).unwrap();
            assert!(
                fixed.bits_per_key(keys) < 22.6,
                "{}",
                fixed.bits_per_key(keys)
            );
        }
        let grows = FingerprintPlan::for_rate(1 << 36, 1e-6).unwrap();
        for (keys, most) in [
            (10_000_000, 36.0),
            (100_000_000, 33.0),
            (1_000_000_000, 29.5),
        ] {
            assert!(
                grows.bits_per_key(keys) < most,
                "{}",
                grows.bits_per_key(keys)
            );
        }
    }
}
