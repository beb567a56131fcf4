//! Plans and predicts a filter's size, probes and error rate; pure arithmetic.
//!
//! # How does it work?
//!
//! A Bloom filter of `m` bits that holds `n` keys with `k` probes each answers "seen" for a key it never saw with
//! probability `(1 - exp(-k n / m))^k` ([`ideal_rate`]). Everseen keeps all probes of a key inside one page, so that a
//! lookup costs one I/O. Pages then differ in load: by chance some hold more keys than others, and their extra wrong
//! answers outweigh what the lighter pages save. [`expected_rate`] is the mean over that chance, and [`Plan`] uses it
//! to choose pages and probes. Inside the page, probes come in runs, each within one line of the processor's cache
//! ([`Cell::run_length`]); the rate and the plan include that too:
//!
//! ```
//! use everseen::sizing::{Plan, ideal_bits_per_key};
//!
//! // A million keys, at most one wrong answer in ten thousand.
//! let plan = Plan::for_rate(1_000_000, 1e-4)?;
//! assert_eq!(plan.probes, 13);
//! assert!(plan.fpr <= 1e-4);
//! // The ideal filter would take 19.17 bits a key; ours takes less than 1 % more.
//! assert!(plan.bits_per_key() < 1.01 * ideal_bits_per_key(1e-4));
//! # Ok::<(), everseen::sizing::SizingError>(())
//! ```
//!
//! A store that grows is a stack of such filters, each larger and stricter than the one before: [`Growth`].
//!
//! # Units and ranges
//!
//! Capacities count keys, sizes count bytes of pages ([`PAGE_BYTES`] each, of which [`PAGE_BITS`] bits are filter); the
//! header and superblocks of a store are not counted here. Rates are probabilities, 0 < p < 1. The functions that
//! return a bare number accept any argument and never return NaN; the functions that plan return a [`SizingError`].

mod cell;
mod error;
mod growth;
mod ideal;
mod interval;
mod paged;
mod plan;
mod runs;
mod search;

pub use cell::Cell;
pub use error::SizingError;
pub use growth::Growth;
pub use ideal::{ideal_bits_per_key, ideal_probes, ideal_rate};
pub use interval::{Interval, poisson_interval, share_interval};
pub use paged::{expected_fill, expected_rate, hash_floor, keys_from_bits_set};
pub use plan::Plan;
pub(crate) use plan::check_rate;

/// Bytes of one page on disk: a 16-byte header and 4080 bytes of payload.
pub const PAGE_BYTES: u64 = 4096;

/// Filter bits in one page, its payload: 4080 · 8.
pub const PAGE_BITS: u64 = 32_640;

/// Maximum bytes of pages in one filter: 2^62.
pub const MAX_BYTES: u64 = 1 << 62;

/// Maximum pages in one filter: 2^50, which take [`MAX_BYTES`].
pub const MAX_PAGES: u64 = MAX_BYTES / PAGE_BYTES;

/// Bits in a line, within which a run of probes lies: 64 bytes. The first line of a page has 384, behind the header.
pub const LINE_BITS: u64 = 512;

/// Maximum probes per key.
pub const MAX_PROBES: u32 = 64;

/// Maximum number of times that a plan can be foldable in half: 2^20 pages are 4 GiB.
pub const MAX_FOLDS: u32 = 20;

/// Maximum layers in a growing store.
pub const MAX_LAYERS: u32 = 64;

const _: () = assert!(PAGE_BITS == (PAGE_BYTES - 16) * 8);
const _: () = assert!(MAX_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(
    MAX_PAGES.is_multiple_of(1 << MAX_FOLDS),
    "the largest filter can be folded"
);
