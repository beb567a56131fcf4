//! What the last look-ups say about the next ones.

use std::sync::atomic::{AtomicBool, AtomicUsize};

use crate::config::open_options::OpenOptions;
use crate::error::Result;
use crate::hash::in_pairs;
use crate::prefetch::hash_source::{HashSource, LazyHashes};
use crate::prefetch::pace::Pace;
use crate::prefetch::residency::Residency;

/// Predicts the next look-ups from the last ones. Answers do not depend on the prediction.
#[derive(Debug, Default)]
pub(crate) struct LookupHints {
    /// Whether the last batch brought mostly new keys.
    pub(crate) mostly_new: AtomicBool,
    /// How many keys of the caller's batch will change, about. Only a generation without a log asks for it.
    pub(crate) coming: AtomicUsize,
    /// How many keys of a window wait behind those that are claimed: after each rotation, all of them are looked for in the
    /// sealed buffer.
    pub(crate) waiting: AtomicUsize,
    pub(crate) residency: Residency,
    pub(crate) pace: Pace,
}

impl LookupHints {
    /// Returns whether one sweep over the pages takes less time than looking this many keys up in batches of an ordinary
    /// size.
    pub(crate) fn is_sweep_cheaper(&self, keys: usize, pages: u64) -> bool {
        self.residency.is_likely() && self.pace.is_sweep_cheaper(keys as u64, pages)
    }

    /// Passes keys on in parts, so that memory does not grow with the batch. If their pages come from the disk, parts
    /// are as large as `options` allow, and hashes are not stored. `hash` hashes two keys at once.
    pub(crate) fn in_parts<K: Sync>(
        &self,
        options: &OpenOptions,
        keys: &[K],
        hash: impl Fn([&K; 2]) -> [u64; 2] + Sync,
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
