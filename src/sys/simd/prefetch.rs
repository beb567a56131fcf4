//! A hint to the processor.

use std::sync::atomic::{AtomicBool, Ordering};

use super::lanes::Lanes;

/// Whether lines are asked for in the second cache.
static INTO_SECOND_CACHE: AtomicBool = AtomicBool::new(false);

/// Finds out how this processor wants to be asked. Called where memory is mapped: a prefetch, of which there are several
/// for each key, only reads what was found.
///
/// Into their first cache, AMD's processors drop what they have no place for: a fourth to a half of sixteen lines or more
/// that belong to the same set, as the first lines of pages do. From the second a line comes in some 3 ns. On an Intel
/// Xeon the engine was slower that way: 95 to 115 instead of 85 ns an absent key. `prefetchnta` loses as many lines as the
/// first cache does.
pub(in crate::sys) fn detect() {
    // Only processors of AMD and its licensees have these instructions.
    #[cfg(target_arch = "x86_64")]
    INTO_SECOND_CACHE.store(std::is_x86_feature_detected!("sse4a"), Ordering::Relaxed);
}

/// Prefetches the processor's cache line of `place`, which may be any address. Affects only speed.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    match INTO_SECOND_CACHE.load(Ordering::Relaxed) {
        true => prefetch_into::<true, T>(place),
        false => prefetch_into::<false, T>(place),
    }
}

/// Prefetches the cache lines of the words with these indexes, which may be any.
#[inline(always)]
pub(crate) fn prefetch_all<T, V: Lanes>(words: &[T], indexes: V) {
    let place = |index| words.as_ptr().wrapping_add(index as usize);
    match INTO_SECOND_CACHE.load(Ordering::Relaxed) {
        true => indexes.for_each(|index| prefetch_into::<true, T>(place(index))),
        false => indexes.for_each(|index| prefetch_into::<false, T>(place(index))),
    }
}

#[inline(always)]
fn prefetch_into<const SECOND_CACHE: bool, T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64, and a prefetch reads nothing and never faults, whatever the pointer is.
        unsafe {
            match SECOND_CACHE {
                true => _mm_prefetch::<_MM_HINT_T1>(place.cast()),
                false => _mm_prefetch::<_MM_HINT_T0>(place.cast()),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
