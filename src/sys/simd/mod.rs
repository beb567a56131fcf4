//! What only some processors have: work compiled for each of them, numbers in lanes, prefetches.

pub(crate) mod dispatch;
pub(super) mod highway;
pub(crate) mod lanes;
#[cfg(all(target_arch = "x86_64", not(all(test, loom))))]
mod lanes_avx512;
#[cfg(target_arch = "x86_64")]
mod lists_avx512;
pub(super) mod prefetch;
pub(crate) mod probes_avx512;
#[cfg(target_arch = "x86_64")]
mod processor;
