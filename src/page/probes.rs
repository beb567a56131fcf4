//! Which bits of its page a key owns.

use super::PAYLOAD_BITS;
use crate::hash::finalise;

/// What SplitMix64 adds at each step (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Whether all of a key's bits pass a test, each given by its number in the page, in
/// `0..PAYLOAD_BITS`. Two bits a look: in a page that is half full one decides as often as not,
/// which no processor can foretell, and two decide in three cases of four.
///
/// The bits are independent draws from SplitMix64 seeded with all 64 bits of the hash, two a step,
/// low half first. Double hashing would be shorter, and in so small a page misses the rate
/// thirtyfold at 1e-6. FORMAT.md, "Probes".
#[inline(always)]
pub(crate) fn all(hash: u64, probes: u32, test: impl Fn(usize) -> bool) -> bool {
    all_of(PAYLOAD_BITS, hash, probes, test)
}

/// The same of draws among `cells` of another size than a bit.
#[inline(always)]
pub(crate) fn all_of(
    cells: u64,
    hash: u64,
    probes: u32,
    mut test: impl FnMut(usize) -> bool,
) -> bool {
    let mut state = hash;
    for _ in 0..probes / 2 {
        let [low, high] = step_of(cells, &mut state);
        if !(test(low) & test(high)) {
            return false;
        }
    }
    probes.is_multiple_of(2) || test(step_of(cells, &mut state)[0])
}

/// Does something with the number of each of a key's bits, as [`all`] has them.
#[inline(always)]
pub(crate) fn each(hash: u64, probes: u32, each: impl FnMut(usize)) {
    each_of(PAYLOAD_BITS, hash, probes, each);
}

/// The same draws among `cells` of another size than a bit.
#[inline(always)]
pub(crate) fn each_of(cells: u64, hash: u64, probes: u32, mut each: impl FnMut(usize)) {
    let mut state = hash;
    for _ in 0..probes / 2 {
        step_of(cells, &mut state).into_iter().for_each(&mut each);
    }
    if !probes.is_multiple_of(2) {
        each(step_of(cells, &mut state)[0]);
    }
}

/// The first two of a key's bits.
#[inline]
pub(crate) fn first(hash: u64) -> [usize; 2] {
    step(&mut { hash })
}

#[inline(always)]
fn step(state: &mut u64) -> [usize; 2] {
    step_of(PAYLOAD_BITS, state)
}

#[inline(always)]
fn step_of(cells: u64, state: &mut u64) -> [usize; 2] {
    *state = state.wrapping_add(STEP);
    let draws = finalise(*state);
    [draws & 0xFFFF_FFFF, draws >> 32].map(|draw| ((draw * cells) >> 32) as usize)
}

#[cfg(test)]
pub(crate) mod twin {
    use super::{PAYLOAD_BITS, STEP};
    use crate::hash::finalise;

    /// The slow twin: the endless sequence, draw by draw.
    pub(crate) fn bits(hash: u64) -> impl Iterator<Item = usize> {
        cells(PAYLOAD_BITS, hash)
    }

    pub(crate) fn cells(cells: u64, hash: u64) -> impl Iterator<Item = usize> {
        let step = move |n: u64| finalise(hash.wrapping_add(STEP.wrapping_mul(n)));
        let halves = move |n| [step(n) as u32, (step(n) >> 32) as u32];
        let place = move |draw: u32| ((u128::from(draw) * u128::from(cells)) >> 32) as usize;
        (1..).flat_map(halves).map(place)
    }
}

#[cfg(test)]
mod tests {
    use super::twin::bits;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_those_of_the_twin(hash in any::<u64>(), probes in 0_u32..70) {
            let twin: Vec<_> = bits(hash).take(probes as usize).collect();
            let mut got = Vec::new();
            each(hash, probes, |bit| got.push(bit));
            prop_assert_eq!(&got, &twin);
            prop_assert_eq!(&first(hash)[..], &bits(hash).take(2).collect::<Vec<_>>()[..]);
            prop_assert!(all(hash, probes, |bit| twin.contains(&bit)));
            for missing in &twin {
                prop_assert!(!all(hash, probes, |bit| bit != *missing));
            }
        }
    }

    #[test]
    fn draws_stay_in_the_page_and_reach_both_ends() {
        let (mut least, mut most) = (usize::MAX, 0);
        for hash in 0..100_000_u64 {
            for bit in bits(hash).take(23) {
                assert!((bit as u64) < PAYLOAD_BITS);
                least = least.min(bit);
                most = most.max(bit);
            }
        }
        assert_eq!(least, 0);
        assert_eq!(most as u64, PAYLOAD_BITS - 1);
    }

    #[test]
    fn draws_are_even() {
        // 32,640 cells, 64 balls each: chi-squared stays within five deviations of its mean.
        let mut cells = vec![0_u32; PAYLOAD_BITS as usize];
        let balls = 64 * PAYLOAD_BITS;
        for hash in 0..balls / 16 {
            for bit in bits(finalise(hash)).take(16) {
                cells[bit] += 1;
            }
        }
        let squares: f64 = cells.iter().map(|n| (f64::from(*n) - 64.0).powi(2)).sum();
        let freedom = PAYLOAD_BITS as f64 - 1.0;
        let deviation = (squares / 64.0 - freedom) / (2.0 * freedom).sqrt();
        assert!(deviation.abs() < 5.0, "{deviation}");
    }

    /// The sequence belongs to the format: it never changes.
    #[test]
    fn the_sequence_is_that_of_the_format() {
        let bits: Vec<_> = bits(0).take(4).collect();
        // SplitMix64 seeded with 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4.
        let expected = [0x7b1d_cdaf_u64, 0xe220_a839, 0xa1b9_65f4, 0x6e78_9e6a]
            .map(|draw| ((draw * 32_640) >> 32) as usize);
        assert_eq!(bits, expected);
    }
}
