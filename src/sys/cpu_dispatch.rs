//! Work compiled a second time, for processors of the last ten years.
//!
//! The baseline x86-64 processor counts bits in a dozen steps and shifts by one register alone. The program detects
//! better processors at run time, so that one compiled for all of them does not lose what most of them offer.

/// Work whose [`run`](Self::run) is `#[inline(always)]`, as is everything else that should benefit: code that is not
/// inlined is compiled for the baseline.
pub(crate) trait Work {
    type Output;

    fn run(self) -> Self::Output;
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
        return unsafe { modern(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn modern<W: Work>(work: W) -> W::Output {
    work.run()
}
