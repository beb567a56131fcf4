//! From a hash to its fingerprint.

use std::ops::{Range, RangeInclusive};

use super::place::{first_hash_of, last_hash_below, page_of};

/// The most fingerprints that there may be: half of the hashes, so that hashes alone are not wrong more often.
pub(crate) const MOST_FINGERPRINTS: u64 = 1 << 63;

/// The numbers that fingerprints are drawn from: all below a count.
///
/// Hashes go to fingerprints by the high half of a product, so sorting by hash sorts by fingerprint, whatever the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FingerprintSpace {
    count: u64,
    /// `(2^64 - 1) / count`, rounded down: a product with it takes less time than a division.
    inverse: u64,
}

impl FingerprintSpace {
    /// Returns `None` unless the count is 1 to [`MOST_FINGERPRINTS`].
    pub(crate) fn new(count: u64) -> Option<Self> {
        (1..=MOST_FINGERPRINTS).contains(&count).then(|| Self {
            count,
            inverse: u64::MAX / count,
        })
    }

    pub(crate) fn count(self) -> u64 {
        self.count
    }

    #[inline]
    pub(crate) fn fingerprint(self, hash: u64) -> u64 {
        page_of(hash, self.count)
    }

    /// Returns the smallest hash that has the same fingerprint: two keys share it if and only if they share their
    /// fingerprint.
    #[inline]
    pub(crate) fn canonical(self, hash: u64) -> u64 {
        // The low half of the product falls by the count with each hash below, and the high half stays until it is below
        // the count.
        let least = hash - self.quotient(hash.wrapping_mul(self.count));
        // Otherwise one key would win twice, or two keys once.
        debug_assert_eq!(self.fingerprint(least), self.fingerprint(hash));
        debug_assert!(least == 0 || self.fingerprint(least - 1) < self.fingerprint(hash));
        least
    }

    /// Divides by the count.
    #[inline]
    fn quotient(self, number: u64) -> u64 {
        // 2^64 / count is at most 1 above the inverse, so this is the quotient or 1 less.
        let least = ((u128::from(number) * u128::from(self.inverse)) >> 64) as u64;
        least + u64::from(number - least * self.count >= self.count)
    }

    /// Returns the hashes of a range of fingerprints, which is not empty and ends within the space.
    pub(crate) fn hashes(self, fingerprints: Range<u64>) -> RangeInclusive<u64> {
        assert!(!fingerprints.is_empty() && fingerprints.end <= self.count);
        // There are more hashes than fingerprints, so each fingerprint in the space has a first one.
        let first = first_hash_of(fingerprints.start, self.count).unwrap_or(u64::MAX);
        first..=last_hash_below(fingerprints.end, self.count)
    }
}

/// Returns the ends of so many parts of a range that isn't empty, one at least.
pub(crate) fn parts_of(range: &Range<u64>, count: u64) -> impl Iterator<Item = u64> + use<> {
    let (start, length) = (range.start, range.end - range.start);
    let count = count.clamp(1, length);
    let end = move |part| (u128::from(length) * u128::from(part) / u128::from(count)) as u64;
    (1..=count).map(move |part| start + end(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts() -> impl Strategy<Value = u64> {
        let any_width = (0_u32..63, any::<u64>());
        let any_width = any_width.prop_map(|(bits, more)| (1 << bits) + more % (1 << bits));
        prop_oneof![any_width, Just(1), Just(MOST_FINGERPRINTS)]
    }

    proptest! {
        /// The slow twin divides.
        #[test]
        fn a_fingerprint_is_the_share_of_the_hash(count in counts(), hash in any::<u64>()) {
            let space = FingerprintSpace::new(count).unwrap();
            let share = u128::from(hash) * u128::from(count) / (1 << 64);
            prop_assert_eq!(u128::from(space.fingerprint(hash)), share);
            prop_assert!(space.fingerprint(hash) < count);
        }

        #[test]
        fn a_canonical_hash_is_the_first_of_its_fingerprint(count in counts(), hash in any::<u64>()) {
            let space = FingerprintSpace::new(count).unwrap();
            let canonical = space.canonical(hash);
            let fingerprint = space.fingerprint(hash);
            prop_assert_eq!(Some(canonical), first_hash_of(fingerprint, count));
            prop_assert_eq!(space.fingerprint(canonical), fingerprint);
            prop_assert!(canonical == 0 || space.fingerprint(canonical - 1) < fingerprint);
            prop_assert_eq!(space.canonical(canonical), canonical);
        }

        /// The slow twin divides. Multiples of the count are where the quotient changes.
        #[test]
        fn a_quotient_is_exact(count in counts(), number in any::<u64>(), beside in 0_u64..3) {
            let space = FingerprintSpace::new(count).unwrap();
            let edge = (number - number % count).wrapping_add(beside).wrapping_sub(1);
            for number in [number, edge, u64::MAX] {
                prop_assert_eq!(space.quotient(number), number / count);
            }
        }

        #[test]
        fn a_range_has_the_hashes_of_its_fingerprints(
            count in counts(),
            ends in any::<(u64, u64)>(),
            hash in any::<u64>(),
        ) {
            let space = FingerprintSpace::new(count).unwrap();
            let (one, other) = (ends.0 % count, ends.1 % count);
            let range = one.min(other)..one.max(other) + 1;
            let hashes = space.hashes(range.clone());
            for hash in [hash, *hashes.start(), *hashes.end()] {
                prop_assert_eq!(hashes.contains(&hash), range.contains(&space.fingerprint(hash)));
            }
        }
    }

    #[test]
    fn a_space_has_at_least_one_fingerprint_and_not_too_many() {
        assert_eq!(FingerprintSpace::new(0), None);
        assert_eq!(FingerprintSpace::new(MOST_FINGERPRINTS + 1), None);
        assert_eq!(FingerprintSpace::new(1).unwrap().canonical(u64::MAX), 0);
        assert_eq!(FingerprintSpace::new(1).unwrap().hashes(0..1), 0..=u64::MAX);
    }
}
