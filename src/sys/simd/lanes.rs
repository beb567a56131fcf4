//! Numbers in lanes: one algorithm for many numbers at once, written once for all processors.
//!
//! [`Single`] has one lane, on any processor. `Eight` has as many as fit in a vector of processors with AVX-512. Numbers
//! wrap; nothing here panics for what it computes.
//!
//! Plain loops over arrays, compiled for AVX-512, took twice the time: the compiler moved each word that they loaded through
//! a general register into a vector.

use std::ops::{Add, BitAnd, BitOr, Not, Sub};

use crate::sys::sync::{AtomicU64, Ordering};

/// A number in each lane.
pub(crate) trait Lanes:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Not<Output = Self>
{
    type Mask: Mask;

    const COUNT: usize;

    /// Returns the same number in each lane.
    fn of(number: u64) -> Self;

    /// Returns the first numbers of a list, and the last of the list again in all lanes behind.
    ///
    /// # Panics
    /// Panics if the list is empty.
    fn first_of(numbers: &[u64]) -> Self;

    /// Computes the number of each lane by itself.
    fn each(number: impl FnMut(usize) -> u64) -> Self;

    /// Calls `each` with each lane's number, in order.
    fn for_each(self, each: impl FnMut(u64));

    /// Returns the number of a lane.
    fn lane(self, lane: usize) -> u64;

    /// Returns the words at these indexes.
    ///
    /// # Panics
    /// Panics if there is no such word.
    fn gather(words: &[AtomicU64], indexes: Self) -> Self;

    /// Returns the eight bytes from the one with this number on, as [`gather`](Self::gather) does from words. The words
    /// are little-endian.
    ///
    /// # Panics
    /// Panics if a byte lies behind the last word.
    fn gather_bytes(words: &[AtomicU64], bytes: Self) -> Self;

    /// Returns what numbers that were read as they lie in a file are.
    fn from_le(numbers: Self) -> Self;

    fn shl(self, bits: Self) -> Self;

    fn shr(self, bits: Self) -> Self;

    /// Returns the product of the numbers' low halves.
    fn times(self, other: Self) -> Self;

    /// Returns the quotient, rounded down, of numbers below 2^32, the second of which is not 0.
    fn divided_by(self, other: Self) -> Self;

    /// Returns the high half of a product.
    fn times_high(self, other: u64) -> Self;

    fn count_ones(self) -> Self;

    fn min(self, other: Self) -> Self;

    fn is_below(self, other: Self) -> Self::Mask;

    fn is_equal(self, other: Self) -> Self::Mask;

    /// Returns `self` where the mask holds, `other` elsewhere.
    fn where_or(self, mask: Self::Mask, other: Self) -> Self;
}

/// What holds or not for each lane.
pub(crate) trait Mask:
    Copy + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self>
{
    /// Returns what holds for no lane.
    const NONE: Self;

    /// Returns whether it holds for any lane.
    fn any(self) -> bool;

    /// Returns whether it holds for a lane.
    fn has(self, lane: usize) -> bool;

    /// Returns what holds for one lane alone.
    fn only(lane: usize) -> Self;
}

/// One lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Single(u64);

impl Add for Single {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Sub for Single {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

impl BitAnd for Single {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Single {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Not for Single {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Lanes for Single {
    type Mask = bool;

    const COUNT: usize = 1;

    #[inline(always)]
    fn of(number: u64) -> Self {
        Self(number)
    }

    #[inline(always)]
    fn first_of(numbers: &[u64]) -> Self {
        Self(numbers[0])
    }

    #[inline(always)]
    fn each(mut number: impl FnMut(usize) -> u64) -> Self {
        Self(number(0))
    }

    #[inline(always)]
    fn for_each(self, mut each: impl FnMut(u64)) {
        each(self.0);
    }

    #[inline(always)]
    fn lane(self, _lane: usize) -> u64 {
        self.0
    }

    #[inline(always)]
    fn gather(words: &[AtomicU64], indexes: Self) -> Self {
        Self(words[place(indexes.0)].load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn gather_bytes(words: &[AtomicU64], bytes: Self) -> Self {
        let word = |byte: u64| u64::from_le(words[place(byte / 8)].load(Ordering::Relaxed));
        let passed = bytes.0 % 8 * 8;
        let (first, last) = (word(bytes.0), word(bytes.0.saturating_add(7)));
        Self(first >> passed | last << 1 << (63 - passed))
    }

    #[inline(always)]
    fn from_le(numbers: Self) -> Self {
        Self(u64::from_le(numbers.0))
    }

    #[inline(always)]
    fn shl(self, bits: Self) -> Self {
        Self(if bits.0 < 64 { self.0 << bits.0 } else { 0 })
    }

    #[inline(always)]
    fn shr(self, bits: Self) -> Self {
        Self(if bits.0 < 64 { self.0 >> bits.0 } else { 0 })
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self(u64::from(self.0 as u32) * u64::from(other.0 as u32))
    }

    #[inline(always)]
    fn divided_by(self, other: Self) -> Self {
        // Shorter than a division of 64 bits on older processors.
        Self(
            (self.0 as u32)
                .checked_div(other.0 as u32)
                .unwrap_or(0)
                .into(),
        )
    }

    #[inline(always)]
    fn times_high(self, other: u64) -> Self {
        Self(((u128::from(self.0) * u128::from(other)) >> 64) as u64)
    }

    #[inline(always)]
    fn count_ones(self) -> Self {
        Self(self.0.count_ones().into())
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    #[inline(always)]
    fn is_below(self, other: Self) -> bool {
        self.0 < other.0
    }

    #[inline(always)]
    fn is_equal(self, other: Self) -> bool {
        self.0 == other.0
    }

    #[inline(always)]
    fn where_or(self, mask: bool, other: Self) -> Self {
        if mask { self } else { other }
    }
}

/// Returns a word's place in a list; one that no list has where numbers of this size are too small.
#[inline(always)]
fn place(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

impl Mask for bool {
    const NONE: Self = false;

    #[inline(always)]
    fn any(self) -> bool {
        self
    }

    #[inline(always)]
    fn has(self, _lane: usize) -> bool {
        self
    }

    #[inline(always)]
    fn only(_lane: usize) -> Self {
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sys::simd::dispatch::{Baseline, Cpu, Work, run_wide};

    const NUMBERS: usize = 8;

    /// Computes everything from eight numbers and eight others.
    struct Everything<'a>(&'a [u64; NUMBERS], &'a [u64; NUMBERS], &'a [AtomicU64]);

    impl Everything<'_> {
        fn of<V: Lanes>(&self, lanes: usize) -> Vec<Vec<u64>> {
            let Self(one, other, words) = self;
            let (first, second) = (V::first_of(&one[lanes..]), V::first_of(&other[lanes..]));
            let mut all = Vec::new();
            let mut put = |found: V| {
                let mut numbers = Vec::new();
                found.for_each(|number| numbers.push(number));
                let again = (0..V::COUNT).map(|lane| found.lane(lane));
                assert_eq!(numbers, Vec::from_iter(again));
                all.push(numbers);
            };
            let half = |numbers: V| numbers & V::of(u32::MAX.into());
            let place =
                |numbers: V, places: usize| V::each(|lane| numbers.lane(lane) % places as u64);
            put(first + second);
            put(first - second);
            put(first & second);
            put(first | second);
            put(!first);
            put(first.shl(place(second, 70)));
            put(first.shr(place(second, 70)));
            put(first.times(second));
            put(first.times_high(other[0]));
            put(half(first).divided_by(half(second) | V::of(1)));
            put(first.count_ones());
            put(first.min(second));
            put(V::of(other[0]));
            put(V::gather(words, place(first, words.len())));
            put(V::gather_bytes(words, place(first, words.len() * 8 - 7)));
            for mask in [
                first.is_below(second),
                first.is_equal(second),
                !first.is_equal(first),
                first.is_below(second) & second.is_equal(second),
                first.is_below(second) | second.is_below(first),
                V::Mask::NONE,
            ] {
                put(first.where_or(mask, second));
                put(V::each(|lane| mask.has(lane).into()));
                let any = (0..V::COUNT).any(|lane| mask.has(lane));
                assert_eq!(mask.any(), any);
            }
            for lane in 0..V::COUNT {
                let only = V::each(|other| V::Mask::only(lane).has(other).into());
                (0..V::COUNT)
                    .for_each(|other| assert_eq!(only.lane(other), u64::from(other == lane)));
            }
            all
        }
    }

    impl Work for Everything<'_> {
        type Output = Vec<Vec<u64>>;

        fn run<C: Cpu>(self, _cpu: C) -> Vec<Vec<u64>> {
            let mut all: Vec<Vec<u64>> = Vec::new();
            for lanes in (0..NUMBERS).step_by(C::Lanes::COUNT) {
                let found = self.of::<C::Lanes>(lanes);
                all.resize(found.len(), Vec::new());
                for (all, found) in all.iter_mut().zip(found) {
                    all.extend(found);
                }
            }
            all
        }
    }

    fn numbers() -> impl Strategy<Value = [u64; NUMBERS]> {
        let edges = prop::sample::select(vec![
            0,
            1,
            63,
            64,
            (1 << 32) - 1,
            1 << 32,
            1 << 63,
            u64::MAX,
        ]);
        let any_width = (any::<u64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift);
        prop::array::uniform(prop_oneof![edges, any_width])
    }

    proptest! {
        /// The slow twin has one lane.
        #[test]
        fn as_many_lanes_as_there_are_compute_what_one_does(
            one in numbers(),
            mut other in numbers(),
            same in 0_usize..=NUMBERS,
            words in prop::collection::vec(any::<u64>(), 2..20),
        ) {
            other[..same].copy_from_slice(&one[..same]);
            let words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
            let twin = Everything(&one, &other, &words).run(Baseline);
            prop_assert_eq!(run_wide(Everything(&one, &other, &words)), twin);
        }
    }

    struct GatherAt(u64, bool);

    impl Work for GatherAt {
        type Output = u64;

        fn run<C: Cpu>(self, _cpu: C) -> u64 {
            let words = [const { AtomicU64::new(7) }; 4];
            let last = C::Lanes::COUNT - 1;
            let place = C::Lanes::each(|lane| if lane == last { self.0 } else { 0 });
            match self.1 {
                true => C::Lanes::gather_bytes(&words, place).lane(last),
                false => C::Lanes::gather(&words, place).lane(last),
            }
        }
    }

    #[test]
    fn nothing_is_gathered_from_beyond_the_words() {
        for (last, of_bytes) in [(3, false), (24, true)] {
            assert_eq!(run_wide(GatherAt(last, of_bytes)), 7);
            for beyond in [last + 1, 1 << 61, u64::MAX / 8, u64::MAX] {
                let wide = std::panic::catch_unwind(|| run_wide(GatherAt(beyond, of_bytes)));
                let single = std::panic::catch_unwind(|| GatherAt(beyond, of_bytes).run(Baseline));
                assert!(
                    wide.is_err() && single.is_err(),
                    "{beyond}, of bytes: {of_bytes}"
                );
            }
        }
    }
}
