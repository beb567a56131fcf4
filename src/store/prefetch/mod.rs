//! Requests the pages that the next look-ups need ahead of them.
//!
//! Guarantees nothing but speed: no answer depends on a hint. This module touches mapped pages and the system's page
//! cache, and takes no lock that a look-up waits for.

pub(crate) mod hash_source;
pub(crate) mod lookup_order;
pub(crate) mod readahead;
pub(crate) mod residency;

use std::sync::atomic::AtomicBool;

use crate::error::Result;
use crate::hash::in_pairs;
use crate::store::config::options::Options;
use crate::store::prefetch::hash_source::{HashSource, LazyHashes};
use crate::store::prefetch::residency::Residency;

/// The number of keys that are looked up together: enough to keep the memory busy, few enough for the cache.
pub(crate) const BATCH: usize = 512;

/// The number of keys that are fetched one after the other, one cache line each, before the previously fetched ones are
/// examined. Pairing each fetch with one look instead leaves the memory idle during the looks (docs/performance.md).
pub(crate) const GROUP: usize = 32;

/// Predicts the next look-ups from the last ones. Answers do not depend on the prediction.
#[derive(Debug, Default)]
pub(crate) struct LookupHints {
    /// Whether the last batch brought mostly new keys.
    pub(crate) mostly_new: AtomicBool,
    pub(crate) residency: Residency,
}

impl LookupHints {
    /// Passes keys on in parts, so that memory does not grow with the batch. If their pages come from the disk, parts
    /// are as large as `options` allow, and hashes are not stored. `hash` hashes two keys at once.
    pub(crate) fn in_parts<K>(
        &self,
        options: &Options,
        keys: &[K],
        hash: impl Fn([&K; 2]) -> [u64; 2],
        mut each: impl FnMut(&dyn HashSource) -> Result<()>,
    ) -> Result<()> {
        let most = options.part_keys();
        let mut hashes = Vec::with_capacity(keys.len().min(most));
        let mut rest = keys;
        while !rest.is_empty() {
            let sweep = if rest.len() > most {
                self.residency.sweep()
            } else {
                None
            };
            let part = rest.len().min(match sweep {
                Some(_) => options.sweep_keys(),
                None => most,
            });
            let (part, others) = rest.split_at(part);
            rest = others;
            if sweep.is_some() {
                each(&LazyHashes {
                    keys: part,
                    hash: &hash,
                })?;
            } else {
                hashes.clear();
                in_pairs(part, &hash, |hash| hashes.push(hash));
                each(&hashes)?;
            }
        }
        Ok(())
    }
}
