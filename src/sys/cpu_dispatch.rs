//! Work compiled a second time, for processors of the last ten years.
//!
//! The baseline x86-64 processor counts bits in a dozen steps and shifts by one register alone. The program detects
//! better processors at run time, so that one compiled for all of them does not lose what most of them offer.

/// Work whose [`run`](Self::run) is `#[inline(always)]`, as is everything else that should benefit: code that is not
/// inlined is compiled for the baseline.
pub(crate) trait Work {
    type Output;

    fn run<C: Cpu>(self, cpu: C) -> Self::Output;
}

/// The processor that work is compiled for.
pub(crate) trait Cpu: Copy {
    /// Returns the place of the one with `rank` ones before it, if there is an instruction for it. There are more than
    /// `rank` ones in the word.
    fn select(self, word: u64, rank: u32) -> Option<u32>;
}

/// Any processor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline;

impl Cpu for Baseline {
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
    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> Option<u32> {
        // SAFETY: there is only a `Modern` where the processor has this instruction.
        let one = unsafe { std::arch::x86_64::_pdep_u64(1 << rank, word) };
        Some(one.trailing_zeros())
    }
}

/// Runs work in the version compiled for this processor.
#[inline]
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("lzcnt")
        && std::is_x86_feature_detected!("popcnt")
    {
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
