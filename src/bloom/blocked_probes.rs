//! The bits of its page that a key owns: runs of probes, each within one line of the processor's cache.
//!
//! A key with twenty probes anywhere in the page touches seventeen lines, and fetching lines is most of the cost of a
//! lookup. With runs of three it touches eight. The planner adds the space that runs take (`sizing`), and the length of
//! runs is chosen so that this space stays small: docs/design.md, "Probes lie in runs".
//!
//! Draws stay independent: the first bit of a run falls anywhere in the page, and each other bit falls anywhere in the
//! line of the first where none before it fell. FORMAT.md, "Probes".

use super::uniform_probes::GOLDEN_STEP;
use crate::hash::finalise;
use crate::page::{PAYLOAD_BITS, PAYLOAD_OFFSET};
use crate::sizing::{Cell, LINE_BITS as LINE};

/// Bits in the page's header, with which the first line begins.
pub(super) const HEADER: u64 = PAYLOAD_OFFSET as u64 * 8;

/// Lines begin where the page does, so a bit's line follows from its number alone.
const _: () = assert!(LINE.is_power_of_two() && HEADER < LINE);
const _: () = assert!((HEADER + PAYLOAD_BITS).is_multiple_of(LINE));
/// A draw of 32 bits times these is 64 bits at most.
const _: () = assert!(PAYLOAD_BITS < 1 << 32);

/// Returns whether each of a key's bits passes a test. Bits are counted from the first of the page's header.
///
/// It tests one run at a time: in a half-full page one bit decides in half of all cases, which no processor can
/// predict, and three bits decide in seven cases of eight.
#[inline(always)]
pub(crate) fn all(hash: u64, probes: u32, test: impl Fn(usize) -> bool) -> bool {
    begins(hash, probes, u32::MAX, test)
}

/// Returns whether the bits of the first `runs` runs pass a test: all bits if the key has no more.
#[inline(always)]
pub(crate) fn begins(hash: u64, probes: u32, runs: u32, test: impl Fn(usize) -> bool) -> bool {
    let length = Cell::Bit.run_length(probes);
    let looked_at = probes.min(length.saturating_mul(runs));
    in_runs(hash, length, looked_at, |run| {
        run.iter().fold(true, |all, bit| all & test(*bit))
    })
}

/// Calls `each` with each of a key's bits.
#[inline(always)]
pub(crate) fn each(hash: u64, probes: u32, mut each: impl FnMut(usize)) {
    each_run(hash, probes, |run| run.iter().for_each(|bit| each(*bit)));
}

/// Calls `each` with the first bit of each run and with each single bit.
#[inline(always)]
pub(crate) fn each_first(hash: u64, probes: u32, mut each: impl FnMut(usize)) {
    each_run(hash, probes, |run| each(run[0]));
}

#[inline(always)]
fn each_run(hash: u64, probes: u32, each: impl FnMut(&[usize])) {
    each_run_of(hash, Cell::Bit.run_length(probes), probes, each);
}

/// Calls `each` with each run of the first `probes` probes and with each single bit.
#[inline(always)]
pub(super) fn each_run_of(hash: u64, length: u32, probes: u32, mut each: impl FnMut(&[usize])) {
    in_runs(hash, length, probes, |run| {
        each(run);
        true
    });
}

/// Walks the first `probes` probes in runs of `length` until `each` returns `false`.
#[inline(always)]
fn in_runs(hash: u64, length: u32, probes: u32, each: impl FnMut(&[usize]) -> bool) -> bool {
    match length {
        3 => walk::<3>(hash, probes, each),
        _ => walk::<2>(hash, probes, each),
    }
}

/// Returns the first of all bits.
#[inline(always)]
pub(crate) fn first(hash: u64) -> usize {
    anywhere(finalise(hash.wrapping_add(GOLDEN_STEP)) & 0xFFFF_FFFF) as usize
}

/// Returns the first bit of the second run.
#[inline(always)]
pub(crate) fn second(hash: u64, probes: u32) -> usize {
    let mut state = hash;
    let draws = draws::<2>(&mut state);
    anywhere(draws(Cell::Bit.run_length(probes) as usize)) as usize
}

/// Walks the runs and then the single bits until `each` returns `false`. Two runs take as many steps of the generator,
/// two draws each, as a run has bits.
#[inline(always)]
fn walk<const RUN: usize>(hash: u64, probes: u32, mut each: impl FnMut(&[usize]) -> bool) -> bool {
    let mut state = hash;
    let mut left = probes as usize;
    while left >= 2 * RUN {
        let draws = draws::<RUN>(&mut state);
        if !each(&run::<RUN>(&draws)) || !each(&run::<RUN>(|turn| draws(RUN + turn))) {
            return false;
        }
        left -= 2 * RUN;
    }
    let draws = draws::<RUN>(&mut state);
    let mut next = 0;
    if left >= RUN {
        if !each(&run::<RUN>(&draws)) {
            return false;
        }
        next = RUN;
    }
    (next..left).all(|turn| each(&[anywhere(draws(turn)) as usize]))
}

/// Returns the next draws of 32 bits, low half first.
#[inline(always)]
fn draws<const STEPS: usize>(state: &mut u64) -> impl Fn(usize) -> u64 {
    let steps: [u64; STEPS] = std::array::from_fn(|_| {
        *state = state.wrapping_add(GOLDEN_STEP);
        finalise(*state)
    });
    move |turn| (steps[turn / 2] >> (32 * (turn % 2))) & 0xFFFF_FFFF
}

/// Returns different bits of one line: those behind the first are counted from it and wrap from the line's end to its
/// beginning.
#[inline(always)]
fn run<const RUN: usize>(draw: impl Fn(usize) -> u64) -> [usize; RUN] {
    let first = anywhere(draw(0));
    let line = first / LINE * LINE;
    // The line's end is found without a comparison, which would be a branch that is mispredicted every other time.
    match line {
        0 => among::<RUN>(LINE - HEADER, draw, |behind| {
            HEADER + (first - HEADER + behind) % (LINE - HEADER)
        }),
        _ => among::<RUN>(LINE, draw, |behind| line + (first + behind) % LINE),
    }
}

/// Returns a run's bits in a line of `room` bits, where `bit` returns the bit that lies a given distance behind the
/// first.
#[inline(always)]
fn among<const RUN: usize>(
    room: u64,
    draw: impl Fn(usize) -> u64,
    bit: impl Fn(u64) -> u64,
) -> [usize; RUN] {
    const { assert!(RUN == 2 || RUN == 3) };
    let second = 1 + ((draw(1) * (room - 1)) >> 32);
    std::array::from_fn(|turn| match turn {
        0 => bit(0) as usize,
        1 => bit(second) as usize,
        _ => {
            let third = 1 + ((draw(2) * (room - 2)) >> 32);
            bit(third + u64::from(third >= second)) as usize
        }
    })
}

#[inline(always)]
fn anywhere(draw: u64) -> u64 {
    HEADER + ((draw * PAYLOAD_BITS) >> 32)
}

#[cfg(test)]
pub(crate) mod twin {
    use crate::bloom::uniform_probes::twin::draws;
    use crate::page::PAYLOAD_BITS;

    /// The slow twin works with lists, and without arithmetic tailored to words.
    pub(crate) fn bits(hash: u64, probes: u32) -> Vec<usize> {
        let below = |draw: u32, cells: usize| (draw as usize * cells) >> 32;
        let anywhere = |draw| 128 + below(draw, PAYLOAD_BITS as usize);
        let length = if probes <= 20 { 3 } else { 2 };
        let mut draws = draws(hash);
        let mut next = || draws.next().unwrap();
        let mut bits = Vec::new();
        for _ in 0..probes / length {
            let first = anywhere(next());
            let line = first / 512 * 512;
            // The line's other bits, from the one behind the first to the line's end, then from its beginning.
            let mut others: Vec<usize> = (first + 1..line + 512)
                .chain(line.max(128)..first)
                .collect();
            bits.push(first);
            for _ in 1..length {
                bits.push(others.remove(below(next(), others.len())));
            }
        }
        for _ in 0..probes % length {
            bits.push(anywhere(next()));
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::twin::bits;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_those_of_the_twin(hash in any::<u64>(), probes in 1_u32..=64) {
            let twin = bits(hash, probes);
            let mut got = Vec::new();
            each(hash, probes, |bit| got.push(bit));
            prop_assert_eq!(&got, &twin);
            prop_assert_eq!(first(hash), twin[0]);
            prop_assert!(all(hash, probes, |bit| twin.contains(&bit)));
            let length = Cell::Bit.run_length(probes);
            if probes > length {
                prop_assert_eq!(second(hash, probes), twin[length as usize]);
            }
            for missing in &twin {
                prop_assert!(!all(hash, probes, |bit| bit != *missing));
                for runs in 1..4 {
                    let looked_at = twin.iter().take((runs * length) as usize).any(|bit| bit == missing);
                    prop_assert_eq!(begins(hash, probes, runs, |bit| bit != *missing), !looked_at);
                }
            }
            // Each of a key's bits lies in the line of a first bit.
            let mut firsts = Vec::new();
            each_first(hash, probes, |bit| firsts.push(bit / 512));
            prop_assert_eq!(firsts.len() as u32, probes / length + probes % length);
            prop_assert!(twin.iter().all(|bit| firsts.contains(&(bit / 512))));
        }
    }

    #[test]
    fn runs_are_of_different_bits_of_one_line_and_reach_all_of_it() {
        for probes in [3, 20, 21] {
            let length = Cell::Bit.run_length(probes) as usize;
            let (mut least, mut most) = (usize::MAX, 0);
            for hash in 0..100_000_u64 {
                let bits = bits(hash, probes);
                for run in bits[..probes as usize / length * length].chunks(length) {
                    assert!(run.iter().all(|bit| bit / 512 == run[0] / 512));
                    let mut different = run.to_vec();
                    different.sort_unstable();
                    different.dedup();
                    assert_eq!(different.len(), length);
                    least = least.min(*run[1..].iter().min().unwrap());
                    most = most.max(*run[1..].iter().max().unwrap());
                }
            }
            assert_eq!((least, most), (128, 32_767));
        }
    }

    /// In each place of a run, all bits of the page are equally likely: chi-squared stays within five deviations of its
    /// mean.
    #[test]
    fn draws_are_even_in_each_place() {
        let mut places = [(); 3].map(|()| vec![0_u32; PAYLOAD_BITS as usize]);
        let balls = 64 * PAYLOAD_BITS;
        for hash in 0..balls / 6 {
            for run in bits(finalise(hash), 18).chunks(3) {
                for (cells, bit) in places.iter_mut().zip(run) {
                    cells[bit - 128] += 1;
                }
            }
        }
        for (place, cells) in places.iter().enumerate() {
            let squares: f64 = cells.iter().map(|n| (f64::from(*n) - 64.0).powi(2)).sum();
            let freedom = PAYLOAD_BITS as f64 - 1.0;
            let deviation = (squares / 64.0 - freedom) / (2.0 * freedom).sqrt();
            assert!(deviation.abs() < 5.0, "{place}: {deviation}");
        }
    }

    /// The choice of a key's bits belongs to the format: it never changes.
    #[test]
    fn the_bits_are_those_of_the_format() {
        // SplitMix64 seeded with 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f.
        let first = 128 + ((0x7b1d_cdaf_u64 * 32_640) >> 32);
        let line = first / 512 * 512;
        let behind = |behind: u64| (line + (first - line + behind) % 512) as usize;
        let second = 1 + ((0xe220_a839_u64 * 511) >> 32);
        let third = 1 + ((0xa1b9_65f4_u64 * 510) >> 32);
        assert!(third < second);
        let expected = [first as usize, behind(second), behind(third)];
        assert_eq!(bits(0, 3), expected);
    }
}
