//! From the bytes of a key to 64 bits, the same on every machine and in every version.
//!
//! # How does it work?
//!
//! A store chooses an algorithm ([`Hash`](enum@Hash)) and a 32-byte seed when it is created, and keeps both in its
//! header permanently. A [`KeyHasher`] combines the two. Once the store has the 64 bits, nothing in it looks at the key
//! again: the page, the probes in it and the log record are all functions of this number (`FORMAT.md`, section Hash).
//!
//! ```
//! use everseen::hash::{Hash, KeyHasher};
//!
//! let seed = [7; 32]; // a real one is random
//! let hasher = KeyHasher::new(Hash::Highway, &seed);
//! assert_eq!(hasher.hash(b"https://example.com/"), hasher.hash(b"https://example.com/"));
//! assert_ne!(hasher.hash(b"https://example.com/"), hasher.hash(b"https://example.com"));
//!
//! // Another seed gives another hash: nobody can prepare keys for a seed that they don't know.
//! let other = KeyHasher::new(Hash::Highway, &[8; 32]);
//! assert_ne!(hasher.hash(b"https://example.com/"), other.hash(b"https://example.com/"));
//! ```
//!
//! # Why is the default a keyed hash?
//!
//! An attacker who can compute a filter's hash can choose keys for it: keys that each set only bits that were clear, so
//! that the filter fills and its false-positive rate climbs long before its capacity is reached, or a key that is
//! reported as "seen" although it never was, so that a crawler skips that page. Gerbet, Kumar and Lauradoux ("The Power
//! of Evil Choices in Bloom Filters", DSN 2015) used such keys against a crawler (Scrapy), a spam filter (Dablooms) and
//! a cache (Squid), and name a keyed hash as a remedy. Others choose URLs, lines of mail and everything else from
//! outside, so a store uses [`Hash::Highway`] by default. The price: for a key of 75 bytes, 27 to 40 ns more than
//! [`Hash::Xxh3`], depending on the machine; in batches, where there is AVX2, 8 ns.

mod algorithm;
mod keyed;
mod splitmix;
#[cfg(test)]
mod tests;

pub use algorithm::{Hash, UnknownHash};
pub(crate) use keyed::in_pairs;
pub use keyed::{HashedKey, KeyHasher};
pub(crate) use splitmix::finalise;
