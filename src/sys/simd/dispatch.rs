//! Work compiled a second time, for processors of the last ten years, and a third time, for those with AVX-512.
//!
//! The baseline x86-64 processor counts bits in a dozen steps and shifts by one register alone. The program detects
//! better processors at run time, so that one compiled for all of them does not lose what most of them offer.

use super::lanes::{Lanes, Single};
#[cfg(target_arch = "x86_64")]
use super::{lists_avx512 as lists, processor};

/// Work whose [`run`](Self::run) is `#[inline(always)]`, as is everything else that should benefit: code that is not
/// inlined is compiled for the baseline.
pub(crate) trait Work {
    type Output;

    fn run<C: Cpu>(self, cpu: C) -> Self::Output;
}

/// The processor that work is compiled for.
pub(crate) trait Cpu: Copy {
    /// As many numbers as it computes with at once.
    type Lanes: Lanes;

    /// Returns the place of the one with `rank` ones before it, if there is an instruction for it. There are more than
    /// `rank` ones in the word.
    fn select(self, word: u64, rank: u32) -> Option<u32>;

    /// Adds to each number, by its turn, `(place of the one with as many before it + high - turn) << shift`, modulo 2^64.
    /// There are at least as many ones as numbers. Returns `false`, without having done anything, on a processor that has
    /// no instructions for that.
    #[inline(always)]
    fn add_places(self, _word: u64, _high: u64, _shift: u32, _numbers: &mut [u64]) -> bool {
        false
    }

    /// Adds to each number the next `width` bits of `bytes`, from `bit` on, at most 56. Returns for how many numbers it
    /// has done so. The caller does the others.
    #[inline(always)]
    fn add_equal(self, _bytes: &[u8], _bit: usize, _width: u32, _numbers: &mut [u64]) -> usize {
        0
    }

    /// Returns how many of a rising run are below a number, and how many are not above it, if there are instructions for
    /// that.
    #[inline(always)]
    fn count_below(self, _run: &[u64; 8], _other: u64) -> Option<(u32, u32)> {
        None
    }

    /// Returns a word with a one for each number, by its turn, at the place `((number - first) >> shift) - high + turn`, if
    /// there are instructions for that. Places of 64 and more have none.
    #[inline(always)]
    fn ones(self, _numbers: &[u64; 8], _first: u64, _shift: u32, _high: u64) -> Option<u64> {
        None
    }

    /// Writes the low `width` bits, 4 to 28, of each number less `first` one behind the other from `bit` on, and zeros
    /// behind them up to the end of a word. `before` are the last `2 * width` bits in front, of which those in the byte of
    /// `bit` are written again. Returns how many numbers that was done for, an even number.
    #[inline(always)]
    fn put_lows(
        self,
        _bytes: &mut [u8],
        _bit: usize,
        _before: u64,
        _numbers: &[u64],
        _first: u64,
        _width: u32,
    ) -> usize {
        0
    }
}

/// Any processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline;

impl Cpu for Baseline {
    type Lanes = Single;

    #[inline(always)]
    fn select(self, _word: u64, _rank: u32) -> Option<u32> {
        None
    }
}

/// The proof that this processor has the features that [`modern`] is compiled for.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
struct Modern(());

#[cfg(target_arch = "x86_64")]
impl Cpu for Modern {
    type Lanes = Single;

    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> Option<u32> {
        // SAFETY: there is only a `Modern` where the processor has this instruction.
        let one = unsafe { std::arch::x86_64::_pdep_u64(1 << rank, word) };
        Some(one.trailing_zeros())
    }
}

/// The proof that this processor has the features that [`wide`] is compiled for.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
struct Wide(());

#[cfg(target_arch = "x86_64")]
impl Cpu for Wide {
    #[cfg(not(all(test, loom)))]
    type Lanes = super::lanes_avx512::Eight;
    #[cfg(all(test, loom))]
    type Lanes = Single;

    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> Option<u32> {
        Modern(()).select(word, rank)
    }

    #[inline(always)]
    fn add_places(self, word: u64, high: u64, shift: u32, numbers: &mut [u64]) -> bool {
        // SAFETY: there is only a `Wide` where the processor has all features that the function is compiled for.
        unsafe { lists::add_places(word, high, shift, numbers) };
        true
    }

    #[inline(always)]
    fn add_equal(self, bytes: &[u8], bit: usize, width: u32, numbers: &mut [u64]) -> usize {
        // SAFETY: as above.
        unsafe { lists::add_equal(bytes, bit, width, numbers) }
    }

    #[inline(always)]
    fn count_below(self, run: &[u64; 8], other: u64) -> Option<(u32, u32)> {
        // SAFETY: as above.
        Some(unsafe { lists::count_below(run, other) })
    }

    #[inline(always)]
    fn ones(self, numbers: &[u64; 8], first: u64, shift: u32, high: u64) -> Option<u64> {
        // SAFETY: as above.
        Some(unsafe { lists::ones(numbers, first, shift, high) })
    }

    #[inline(always)]
    fn put_lows(
        self,
        bytes: &mut [u8],
        bit: usize,
        before: u64,
        numbers: &[u64],
        first: u64,
        width: u32,
    ) -> usize {
        // SAFETY: as above.
        unsafe { lists::put_lows(bytes, bit, before, numbers, first, width) }
    }
}

/// Runs work in the version compiled for this processor, with AVX-512 if it has that. For work that is worth the larger
/// program.
#[inline]
pub(crate) fn run_wide<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if processor::is_wide() {
        // SAFETY: the processor has all features that the function is compiled for.
        return unsafe { wide(work, Wide(())) };
    }
    run(work)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt"
)]
fn wide<W: Work>(work: W, cpu: Wide) -> W::Output {
    work.run(cpu)
}

/// Runs work that computes in lanes, in all that the processor has if it is fast at gathering words.
///
/// Intel's processors before Sapphire Rapids could leak what they had gathered (Gather Data Sampling, 2023) and are several
/// times as slow at it where that is mended. Of all that work is compiled for with AVX-512, they alone lack BF16.
#[inline]
pub(crate) fn run_in_lanes<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512bf16") {
        return run_wide(work);
    }
    run(work)
}

/// Runs work in the version compiled for this processor.
#[inline]
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if processor::is_modern() {
        // SAFETY: the processor has all features that the function is compiled for.
        return unsafe { modern(work, Modern(())) };
    }
    work.run(Baseline)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn modern<W: Work>(work: W, cpu: Modern) -> W::Output {
    work.run(cpu)
}
