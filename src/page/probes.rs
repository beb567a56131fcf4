//! Which bits of its page a key owns.

use super::PAYLOAD_BITS;
use crate::hash::finalise;

/// What SplitMix64 adds at each step (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The endless sequence of a key's bit numbers in its page, each in `0..PAYLOAD_BITS`.
///
/// Independent draws from SplitMix64 seeded with all 64 bits of the hash, two a step, low half
/// first. Double hashing would be shorter, and in so small a page misses the rate thirtyfold at
/// 1e-6. FORMAT.md, "Probes".
#[derive(Debug, Clone)]
pub(crate) struct Probes {
    state: u64,
    high: Option<u32>,
}

impl Probes {
    #[inline]
    pub(crate) fn new(hash: u64) -> Self {
        Self {
            state: hash,
            high: None,
        }
    }
}

impl Iterator for Probes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let draw = match self.high.take() {
            Some(high) => high,
            None => {
                self.state = self.state.wrapping_add(STEP);
                let both = finalise(self.state);
                self.high = Some((both >> 32) as u32);
                both as u32
            }
        };
        Some(((u64::from(draw) * PAYLOAD_BITS) >> 32) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_the_page_and_reach_both_ends() {
        let (mut least, mut most) = (usize::MAX, 0);
        for hash in 0..100_000_u64 {
            for bit in Probes::new(hash).take(23) {
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
            for bit in Probes::new(finalise(hash)).take(16) {
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
        let bits: Vec<_> = Probes::new(0).take(4).collect();
        // SplitMix64 seeded with 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4.
        let expected = [0x7b1d_cdaf_u64, 0xe220_a839, 0xa1b9_65f4, 0x6e78_9e6a]
            .map(|draw| ((draw * 32_640) >> 32) as usize);
        assert_eq!(bits, expected);
    }
}
