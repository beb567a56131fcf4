//! Work compiled a second time, for processors of the last ten years.
//!
//! The least x86-64 processor counts bits in a dozen steps and shifts by one register alone. Others are told
//! from it at run time, so that a program compiled for all does not lose what most have.

/// Work whose [`run`](Self::run) is `#[inline(always)]`, and all that is to gain by it as well: what is not
/// inlined is compiled as everywhere.
pub(crate) trait Work {
    type Output;

    fn run(self) -> Self::Output;
}

/// Runs work as compiled for what this processor has.
#[inline]
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("lzcnt")
        && std::is_x86_feature_detected!("popcnt")
    {
        // SAFETY: the processor has all that the function is compiled for.
        return unsafe { modern(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn modern<W: Work>(work: W) -> W::Output {
    work.run()
}
