//! A hint to the processor.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether lines are asked for in the second cache.
static INTO_SECOND_CACHE: AtomicBool = AtomicBool::new(false);

/// Finds out how this processor wants to be asked. Called where memory is mapped: a prefetch, of which there are several
/// for each key, only reads what was found.
///
/// Into their first cache, AMD's processors drop what they have no place for: a fourth to a half of sixteen lines or more
/// that belong to the same set, as the first lines of pages do. From the second a line comes in some 3 ns. On an Intel
/// Xeon the engine was slower that way (docs/experiments.md, "Fetching from memory").
pub(super) fn detect() {
    // Only processors of AMD and its licensees have these instructions.
    #[cfg(target_arch = "x86_64")]
    INTO_SECOND_CACHE.store(std::is_x86_feature_detected!("sse4a"), Ordering::Relaxed);
}

/// Prefetches the processor's cache line of `place`, which may be any address. Affects only speed.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64, and a prefetch reads nothing and never faults, whatever the pointer is.
        unsafe {
            match INTO_SECOND_CACHE.load(Ordering::Relaxed) {
                true => _mm_prefetch::<_MM_HINT_T1>(place.cast()),
                false => _mm_prefetch::<_MM_HINT_T0>(place.cast()),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
