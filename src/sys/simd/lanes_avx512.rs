//! Eight lanes, in a vector of processors with AVX-512.
//!
//! The portable twin is [`Single`](super::lanes::Single).

use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::{Add, BitAnd, BitOr, Not, Sub};

use super::lanes::{Lanes, Mask};
use crate::sys::sync::AtomicU64;

/// Numbers in a vector.
const VECTOR_LANES: usize = 8;

/// Eight numbers.
///
/// No module above has a name for them but `Cpu::Lanes` of the processor that work is compiled for. So there are such only
/// where `dispatch::Wide` is the proof of that processor's features.
#[derive(Debug, Clone, Copy)]
pub(super) struct Eight(__m512i);

/// A bit for each lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct EightMask(u8);

impl Add for Eight {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: where there is an `Eight`, the processor has this instruction.
        Self(unsafe { _mm512_add_epi64(self.0, other.0) })
    }
}

impl Sub for Eight {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: where there is an `Eight`, the processor has this instruction.
        Self(unsafe { _mm512_sub_epi64(self.0, other.0) })
    }
}

impl BitAnd for Eight {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        // SAFETY: where there is an `Eight`, the processor has this instruction.
        Self(unsafe { _mm512_and_si512(self.0, other.0) })
    }
}

impl BitOr for Eight {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        // SAFETY: where there is an `Eight`, the processor has this instruction.
        Self(unsafe { _mm512_or_si512(self.0, other.0) })
    }
}

impl Not for Eight {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: as above. The constant has the function of a `not` of the first operand.
        Self(unsafe { _mm512_ternarylogic_epi64::<0x0F>(self.0, self.0, self.0) })
    }
}

impl Eight {
    #[inline(always)]
    fn load(numbers: &[u64; VECTOR_LANES]) -> Self {
        // SAFETY: as above. The load reads 64 bytes, all of `numbers`, which need not be aligned.
        Self(unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) })
    }

    #[inline(always)]
    fn numbers(self) -> [u64; VECTOR_LANES] {
        let mut numbers = [0; VECTOR_LANES];
        // SAFETY: as above. The store writes 64 bytes, all of `numbers`, which need not be aligned.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), self.0) };
        numbers
    }
}

/// Loads the eight bytes at each offset.
///
/// # Panics
/// Panics if they are not all in the words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn load_bytes(words: &[AtomicU64], offsets: __m512i) -> __m512i {
    let end = (words.len() as u64 * 8).saturating_sub(7);
    let are_beyond = _mm512_cmpge_epu64_mask(offsets, _mm512_set1_epi64(end.cast_signed()));
    assert!(are_beyond == 0, "a place beyond the last word");
    let mut found = _mm512_setzero_si512();
    // SAFETY: the instruction reads eight bytes at each offset, all of which are in `words`. The compiler doesn't see what it
    // reads, so other threads may store there meanwhile: the processor reads words whole that are aligned. Who asks for
    // others takes any bytes.
    unsafe {
        asm!(
            "kxnorw {all}, {all}, {all}",
            "vpgatherqq {found} {{{all}}}, [{base} + {offsets}]",
            all = out(kreg) _,
            found = inout(zmm_reg) found,
            base = in(reg) words.as_ptr(),
            offsets = in(zmm_reg) offsets,
            options(readonly, nostack, preserves_flags),
        );
    }
    found
}

impl Lanes for Eight {
    type Mask = EightMask;

    const COUNT: usize = VECTOR_LANES;

    #[inline(always)]
    fn of(number: u64) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_set1_epi64(number.cast_signed()) })
    }

    #[inline(always)]
    fn first_of(numbers: &[u64]) -> Self {
        match numbers.first_chunk() {
            Some(eight) => Self::load(eight),
            None => Self::each(|lane| numbers[lane.min(numbers.len() - 1)]),
        }
    }

    #[inline(always)]
    fn each(mut number: impl FnMut(usize) -> u64) -> Self {
        let mut numbers = [0; VECTOR_LANES];
        for (lane, to) in numbers.iter_mut().enumerate() {
            *to = number(lane);
        }
        Self::load(&numbers)
    }

    #[inline(always)]
    fn for_each(self, mut each: impl FnMut(u64)) {
        for number in self.numbers() {
            each(number);
        }
    }

    #[inline(always)]
    fn lane(self, lane: usize) -> u64 {
        self.numbers()[lane]
    }

    #[inline(always)]
    fn gather(words: &[AtomicU64], indexes: Self) -> Self {
        // None becomes one that there is.
        let offsets = indexes.min(Self::of(u64::MAX / 8)).shl(Self::of(3));
        Self::gather_bytes(words, offsets)
    }

    #[inline(always)]
    fn gather_bytes(words: &[AtomicU64], bytes: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { load_bytes(words, bytes.0) })
    }

    #[inline(always)]
    fn from_le(numbers: Self) -> Self {
        numbers
    }

    #[inline(always)]
    fn shl(self, bits: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_sllv_epi64(self.0, bits.0) })
    }

    #[inline(always)]
    fn shr(self, bits: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_srlv_epi64(self.0, bits.0) })
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_mul_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn divided_by(self, other: Self) -> Self {
        // SAFETY: as above. A quotient that is no whole number is further below the next than rounding reaches.
        Self(unsafe {
            let quotient = _mm512_div_pd(_mm512_cvtepu64_pd(self.0), _mm512_cvtepu64_pd(other.0));
            _mm512_cvttpd_epu64(quotient)
        })
    }

    #[inline(always)]
    fn times_high(self, other: u64) -> Self {
        let half = Self::of(32);
        let low_half = Self::of(u32::MAX.into());
        let (high, other_low) = (self.shr(half), Self::of(other));
        let other_high = Self::of(other >> 32);
        // No sum is above 2^64 - 1.
        let low = self.times(other_low).shr(half);
        let one = high.times(other_low) + low;
        let two = self.times(other_high) + (one & low_half);
        high.times(other_high) + one.shr(half) + two.shr(half)
    }

    #[inline(always)]
    fn count_ones(self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_popcnt_epi64(self.0) })
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_min_epu64(self.0, other.0) })
    }

    #[inline(always)]
    fn is_below(self, other: Self) -> EightMask {
        // SAFETY: as above.
        EightMask(unsafe { _mm512_cmplt_epu64_mask(self.0, other.0) })
    }

    #[inline(always)]
    fn is_equal(self, other: Self) -> EightMask {
        // SAFETY: as above.
        EightMask(unsafe { _mm512_cmpeq_epu64_mask(self.0, other.0) })
    }

    #[inline(always)]
    fn where_or(self, mask: EightMask, other: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { _mm512_mask_blend_epi64(mask.0, other.0, self.0) })
    }
}

impl BitAnd for EightMask {
    type Output = Self;

    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for EightMask {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Not for EightMask {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Mask for EightMask {
    const NONE: Self = Self(0);

    #[inline(always)]
    fn any(self) -> bool {
        self.0 != 0
    }

    #[inline(always)]
    fn has(self, lane: usize) -> bool {
        self.0 >> lane & 1 != 0
    }

    #[inline(always)]
    fn only(lane: usize) -> Self {
        Self(1 << lane)
    }
}
