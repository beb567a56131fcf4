//! Where the hashes of a batch's keys come from.

use crate::hash::{HashedKey, in_pairs};
use crate::prefetch::BATCH;

/// The hashes of the keys of one part of a batch. A key is identified by its place in the part. Two threads may look them up.
pub(crate) trait HashSource: Sync {
    fn count(&self) -> usize;

    /// Writes the hashes of the keys from place `first` on to `out`.
    fn hashes_from(&self, first: usize, out: &mut [u64]);

    /// Writes the hashes of the keys at these places to `out`.
    fn hashes_at(&self, places: &[u32], out: &mut [u64]);
}

/// Hashes in memory.
impl HashSource for Vec<u64> {
    fn count(&self) -> usize {
        self.len()
    }

    fn hashes_from(&self, first: usize, out: &mut [u64]) {
        out.copy_from_slice(&self[first..][..out.len()]);
    }

    fn hashes_at(&self, places: &[u32], out: &mut [u64]) {
        debug_assert_eq!(places.len(), out.len());
        for (place, out) in places.iter().zip(out) {
            *out = self[*place as usize];
        }
    }
}

/// Keys that were hashed elsewhere.
impl HashSource for &[HashedKey] {
    fn count(&self) -> usize {
        self.len()
    }

    fn hashes_from(&self, first: usize, out: &mut [u64]) {
        for (key, out) in self[first..][..out.len()].iter().zip(out) {
            *out = key.bits();
        }
    }

    fn hashes_at(&self, places: &[u32], out: &mut [u64]) {
        debug_assert_eq!(places.len(), out.len());
        for (place, out) in places.iter().zip(out) {
            *out = self[*place as usize].bits();
        }
    }
}

/// Keys that are hashed each time their hashes are needed. Storing that many hashes would take too much memory.
pub(crate) struct LazyHashes<'a, K, H> {
    pub(crate) keys: &'a [K],
    /// Hashes two keys at once.
    pub(crate) hash: H,
}

impl<'a, K, H: Fn([&K; 2]) -> [u64; 2]> LazyHashes<'a, K, H> {
    fn hashes_of(&self, keys: impl IntoIterator<Item = &'a K>, out: &mut [u64]) {
        let mut out = out.iter_mut();
        let each = |hash| {
            if let Some(out) = out.next() {
                *out = hash;
            }
        };
        in_pairs(keys, &self.hash, each);
    }
}

impl<K: Sync, H: Fn([&K; 2]) -> [u64; 2] + Sync> HashSource for LazyHashes<'_, K, H> {
    fn count(&self) -> usize {
        self.keys.len()
    }

    fn hashes_from(&self, first: usize, out: &mut [u64]) {
        self.hashes_of(&self.keys[first..][..out.len()], out);
    }

    fn hashes_at(&self, places: &[u32], out: &mut [u64]) {
        let keys = places.iter().map(|place| &self.keys[*place as usize]);
        self.hashes_of(keys, out);
    }
}

/// The keys of a part from a place on.
pub(crate) struct SourceTail<'a> {
    pub(crate) source: &'a dyn HashSource,
    pub(crate) first: usize,
}

impl<'a> SourceTail<'a> {
    /// Returns all keys of a part.
    pub(crate) fn all(source: &'a dyn HashSource) -> Self {
        Self { source, first: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        debug_assert!(self.first <= self.source.count());
        self.source.count() - self.first
    }

    /// Calls `each` with the place of each key in the whole part, and its hash.
    pub(crate) fn for_each(&self, mut each: impl FnMut(usize, u64)) {
        let mut hashes = [0; BATCH];
        let places = self.first..self.source.count();
        for first in places.clone().step_by(BATCH) {
            let hashes = &mut hashes[..BATCH.min(places.end - first)];
            self.source.hashes_from(first, hashes);
            for (place, hash) in (first..).zip(hashes) {
                each(place, *hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lazy_hashes_are_those_in_memory(
            keys in prop::collection::vec(any::<u64>(), 1..200),
            first in any::<prop::sample::Index>(),
        ) {
            let hash = |key: &u64| key.rotate_left(7);
            let hashes: Vec<u64> = keys.iter().map(hash).collect();
            let lazy = LazyHashes {
                keys: &keys,
                hash: |keys: [&u64; 2]| keys.map(hash),
            };
            prop_assert_eq!(lazy.count(), hashes.len());
            let first = first.index(keys.len());
            let places: Vec<u32> = (first as u32..keys.len() as u32).rev().collect();
            let mut got = [vec![0; keys.len() - first], vec![0; keys.len() - first]];
            hashes.hashes_from(first, &mut got[0]);
            lazy.hashes_from(first, &mut got[1]);
            prop_assert_eq!(&got[0], &got[1]);
            prop_assert_eq!(&got[0], &hashes[first..]);
            hashes.hashes_at(&places, &mut got[0]);
            lazy.hashes_at(&places, &mut got[1]);
            prop_assert_eq!(&got[0], &got[1]);
            prop_assert_eq!(got[0].last(), Some(&hashes[first]));
        }
    }
}
