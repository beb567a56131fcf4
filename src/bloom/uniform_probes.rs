//! Draws among the cells of a page, each anywhere in it: a key's counters.

use crate::hash::finalise;

/// The increment of SplitMix64 at each step (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014).
pub(super) const GOLDEN_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns whether all of a key's draws among `cells` pass a test. It tests two draws at a time: two decide more often
/// than one, which no processor can predict.
///
/// The draws are independent: SplitMix64, seeded with all 64 bits of the hash, gives two a step, low half first. Double
/// hashing would be shorter, but in so small a page it misses the rate thirtyfold at 1e-6. FORMAT.md, "Probes".
#[inline(always)]
pub(crate) fn all(cells: u64, hash: u64, probes: u32, mut test: impl FnMut(usize) -> bool) -> bool {
    let mut state = hash;
    for _ in 0..probes / 2 {
        let [low, high] = step(cells, &mut state);
        if !(test(low) & test(high)) {
            return false;
        }
    }
    probes.is_multiple_of(2) || test(step(cells, &mut state)[0])
}

/// Calls `each` with each of a key's draws, in the order of [`all`].
#[inline(always)]
pub(crate) fn each(cells: u64, hash: u64, probes: u32, mut each: impl FnMut(usize)) {
    let mut state = hash;
    for _ in 0..probes / 2 {
        step(cells, &mut state).into_iter().for_each(&mut each);
    }
    if !probes.is_multiple_of(2) {
        each(step(cells, &mut state)[0]);
    }
}

#[inline(always)]
fn step(cells: u64, state: &mut u64) -> [usize; 2] {
    *state = state.wrapping_add(GOLDEN_STEP);
    let draws = finalise(*state);
    [draws & 0xFFFF_FFFF, draws >> 32].map(|draw| ((draw * cells) >> 32) as usize)
}

#[cfg(test)]
pub(crate) mod twin {
    use super::GOLDEN_STEP;
    use crate::hash::finalise;

    /// The slow twin is the endless sequence, draw by draw.
    pub(crate) fn draws(hash: u64) -> impl Iterator<Item = u32> {
        let step = move |n: u64| finalise(hash.wrapping_add(GOLDEN_STEP.wrapping_mul(n)));
        let halves = move |n| [step(n) as u32, (step(n) >> 32) as u32];
        (1..).flat_map(halves)
    }

    pub(crate) fn cells(cells: u64, hash: u64) -> impl Iterator<Item = usize> {
        let place = move |draw: u32| ((u128::from(draw) * u128::from(cells)) >> 32) as usize;
        draws(hash).map(place)
    }
}

#[cfg(test)]
mod tests {
    use super::twin::cells;
    use super::*;
    use proptest::prelude::*;

    const CELLS: u64 = 8160;

    proptest! {
        #[test]
        fn draws_are_those_of_the_twin(hash in any::<u64>(), probes in 0_u32..70) {
            let twin: Vec<_> = cells(CELLS, hash).take(probes as usize).collect();
            let mut got = Vec::new();
            each(CELLS, hash, probes, |cell| got.push(cell));
            prop_assert_eq!(&got, &twin);
            prop_assert!(all(CELLS, hash, probes, |cell| twin.contains(&cell)));
            for missing in &twin {
                prop_assert!(!all(CELLS, hash, probes, |cell| cell != *missing));
            }
        }
    }

    #[test]
    fn draws_stay_in_the_page_and_reach_both_ends() {
        let (mut least, mut most) = (usize::MAX, 0);
        for hash in 0..100_000_u64 {
            for cell in cells(CELLS, hash).take(23) {
                assert!((cell as u64) < CELLS);
                least = least.min(cell);
                most = most.max(cell);
            }
        }
        assert_eq!(least, 0);
        assert_eq!(most as u64, CELLS - 1);
    }

    /// The sequence belongs to the format: it never changes.
    #[test]
    fn the_sequence_is_that_of_the_format() {
        let drawn: Vec<_> = cells(CELLS, 0).take(4).collect();
        // SplitMix64 seeded with 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4.
        let expected = [0x7b1d_cdaf_u64, 0xe220_a839, 0xa1b9_65f4, 0x6e78_9e6a]
            .map(|draw| ((draw * CELLS) >> 32) as usize);
        assert_eq!(drawn, expected);
    }
}
