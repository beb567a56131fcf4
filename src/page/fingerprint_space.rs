//! From a hash to its fingerprint.

use std::ops::{Range, RangeInclusive};

use super::place::{first_hash_of, last_hash_below, page_of};

/// The most fingerprints that there may be: half of the hashes, so that hashes alone are not wrong more often.
pub(crate) const MOST_FINGERPRINTS: u64 = 1 << 63;

/// The numbers that fingerprints are drawn from: all below a count.
///
/// Hashes go to fingerprints by the high half of a product, so sorting by hash sorts by fingerprint, whatever the count.
///
/// In a store that forgets, each fingerprint has several numbers, one for each age. What is called its fingerprint is the
/// first of them, and what is called the count is that of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FingerprintSpace {
    /// How many fingerprints there are.
    distinct: u64,
    age_bits: u32,
    /// `(2^64 - 1) / distinct`, rounded down: a product with it takes less time than a division.
    inverse: u64,
}

impl FingerprintSpace {
    /// Returns `None` unless the count is 1 to [`MOST_FINGERPRINTS`].
    pub(crate) fn new(count: u64) -> Option<Self> {
        (1..=MOST_FINGERPRINTS).contains(&count).then(|| Self {
            distinct: count,
            age_bits: 0,
            inverse: u64::MAX / count,
        })
    }

    /// Gives each fingerprint numbers for ages of so many bits. Returns `None` if there were too many numbers.
    pub(crate) fn with_ages(self, age_bits: u32) -> Option<Self> {
        let is_possible = self.distinct <= MOST_FINGERPRINTS >> age_bits;
        is_possible.then_some(Self { age_bits, ..self })
    }

    /// Returns how many numbers there are.
    pub(crate) fn count(self) -> u64 {
        self.distinct << self.age_bits
    }

    /// Returns how many fingerprints there are.
    pub(crate) fn distinct(self) -> u64 {
        self.distinct
    }

    pub(crate) fn age_bits(self) -> u32 {
        self.age_bits
    }

    /// Returns the first number of a number's fingerprint.
    #[inline(always)]
    pub(crate) fn first_of(self, number: u64) -> u64 {
        number & self.mask()
    }

    /// Returns the bits that the first numbers of fingerprints may have.
    #[inline(always)]
    pub(crate) fn mask(self) -> u64 {
        !((1 << self.age_bits) - 1)
    }

    /// Returns the ends of so many parts of a range that isn't empty, one at least. None divides a fingerprint's numbers, so
    /// some parts may be empty.
    pub(crate) fn parts_of(
        self,
        range: &Range<u64>,
        count: u64,
    ) -> impl Iterator<Item = u64> + use<> {
        let (start, length) = (range.start, range.end - range.start);
        let count = count.clamp(1, length);
        let end = move |part| (u128::from(length) * u128::from(part) / u128::from(count)) as u64;
        (1..=count).map(move |part| self.first_of(start + end(part)))
    }

    /// Returns the first number behind those of a fingerprint.
    pub(crate) fn behind(self, fingerprint: u64) -> u64 {
        fingerprint + (1 << self.age_bits)
    }

    #[inline]
    pub(crate) fn fingerprint(self, hash: u64) -> u64 {
        page_of(hash, self.distinct) << self.age_bits
    }

    /// Returns the smallest hash that has the same fingerprint: two keys share it if and only if they share their
    /// fingerprint.
    #[inline]
    pub(crate) fn canonical(self, hash: u64) -> u64 {
        // The low half of the product falls by the count with each hash below, and the high half stays until it is below
        // the count.
        let least = hash - self.quotient(hash.wrapping_mul(self.distinct));
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
        least + u64::from(number - least * self.distinct >= self.distinct)
    }

    /// Returns the hashes of a range of fingerprints, which is not empty, ends within the space and divides no fingerprint's
    /// numbers.
    pub(crate) fn hashes(self, fingerprints: Range<u64>) -> RangeInclusive<u64> {
        assert!(!fingerprints.is_empty() && fingerprints.end <= self.count());
        let [start, end] = [fingerprints.start, fingerprints.end].map(|one| {
            assert_eq!(self.first_of(one), one);
            one >> self.age_bits
        });
        // There are more hashes than fingerprints, so each fingerprint in the space has a first one.
        let first = first_hash_of(start, self.distinct).unwrap_or(u64::MAX);
        first..=last_hash_below(end, self.distinct)
    }
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

        /// The slow twin divides, and shifts what it gets.
        #[test]
        fn the_first_number_of_a_fingerprint_has_room_for_its_ages(
            count in counts(),
            age_bits in 0_u32..=8,
            hash in any::<u64>(),
            ends in any::<(u64, u64)>(),
        ) {
            let plain = FingerprintSpace::new(count).unwrap();
            let aged = plain.with_ages(age_bits);
            prop_assert_eq!(aged.is_some(), count <= MOST_FINGERPRINTS >> age_bits);
            let Some(aged) = aged else { return Ok(()); };
            let first = plain.fingerprint(hash) << age_bits;
            prop_assert_eq!(aged.fingerprint(hash), first);
            prop_assert_eq!(aged.first_of(first + (1 << age_bits) - 1), first);
            prop_assert_eq!(aged.behind(first), (plain.fingerprint(hash) + 1) << age_bits);
            prop_assert_eq!((aged.count(), aged.distinct()), (count << age_bits, count));
            prop_assert_eq!(aged.canonical(hash), plain.canonical(hash));
            let (one, other) = (ends.0 % count, ends.1 % count);
            let range = one.min(other)..one.max(other) + 1;
            let numbers = range.start << age_bits..range.end << age_bits;
            prop_assert_eq!(aged.hashes(numbers), plain.hashes(range));
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
