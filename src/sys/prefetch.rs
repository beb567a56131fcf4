//! A hint to the processor.

/// Prefetches the processor's cache line of `place`, which may be any address. Affects only speed.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64, and a prefetch reads nothing and never faults, whatever the pointer is.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
