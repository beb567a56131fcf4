//! Requests the pages that the next look-ups need ahead of them.
//!
//! Guarantees nothing but speed: no answer depends on a hint. This module touches mapped pages and the system's page
//! cache, and takes no lock that a look-up waits for.

pub(crate) mod hash_source;
pub(crate) mod hints;
pub(crate) mod lookup_order;
pub(crate) mod pace;
pub(crate) mod residency;
pub(crate) mod selection;

/// The number of keys that are looked up together: enough to keep the memory busy, few enough for the cache.
pub(crate) const BATCH: usize = 512;

/// The number of keys that are fetched one after the other, one cache line each, before the previously fetched ones are
/// examined. With fewer of them, the memory is idle during the looks. With 24, 32 or 64, no processor was faster, and one
/// that drops lines (`sys/simd/prefetch.rs`) took 65 instead of 49 ns an insert.
pub(crate) const GROUP: usize = 16;

/// Like [`GROUP`], if all lines of a key are prefetched.
pub(crate) const ALL_GROUP: usize = 4;

/// The approximate number of a walk's pages that show later whether what it read is still in memory.
pub(crate) const SAMPLE_PAGES: u64 = 64;

/// What happens to pages once the look-ups have passed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BehindWalk {
    /// They stay in memory.
    Kept,
    /// They are dropped from memory.
    Dropped,
}
