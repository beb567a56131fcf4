//! An algorithm and a seed, ready to hash.

use std::fmt;

use highway::{HighwayHash, HighwayHasher, Key};

use super::{Hash, finalise, in_pairs};
use crate::sys::Pairs;

/// What a store knows a key by: the key's 64 bits under the store's seed, as [`KeyHasher::key`] gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HashedKey(u64);

impl HashedKey {
    /// The 64 bits.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }
}

/// A [`Hash`](enum@Hash) with a store's 32-byte seed: the function from a key to its 64 bits.
///
/// It has no state that hashing changes, so threads can share one. Its `Debug` form leaves the seed out.
#[derive(Clone)]
pub struct KeyHasher {
    hash: Hash,
    /// The state after the key schedule, under whichever algorithm. A hash copies it: that is a sixth faster than
    /// `HighwayHasher::new` for each key, which asks for the CPU's features and schedules the key again.
    highway: HighwayHasher,
    /// The same for two keys at once. Without, two are hashed one after the other: under another algorithm, and on
    /// processors that can't.
    pairs: Option<Pairs>,
    /// The first 8 bytes of the seed, little-endian.
    word: u64,
}

impl KeyHasher {
    /// The hasher of `hash` under `seed`.
    ///
    /// For [`Hash::Highway`] the seed is the secret, so it should come from the system's random source; whether it
    /// does is not checked.
    pub fn new(hash: Hash, seed: &[u8; 32]) -> Self {
        let (words, _) = seed.as_chunks::<8>();
        let key = [0, 1, 2, 3].map(|i| u64::from_le_bytes(words[i]));
        KeyHasher {
            hash,
            highway: HighwayHasher::new(Key(key)),
            pairs: Pairs::new(key).filter(|_| hash == Hash::Highway),
            word: key[0],
        }
    }

    /// The 64 bits of a key. Any bytes are a key, none at all included, and any of the 2^64 values may come out.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        match self.hash {
            Hash::Highway => match &self.pairs {
                Some(pairs) => pairs.hash_one(key),
                None => self.highway.clone().hash64(key),
            },
            Hash::Xxh3 => xxhash_rust::xxh3::xxh3_64_with_seed(key, self.word),
            // The low half of `word` is the first 4 bytes of the seed.
            Hash::Murmur3 => mur3::murmurhash3_x64_128(key, self.word as u32).0,
        }
    }

    /// The same, in the form in which a store takes keys that were hashed elsewhere:
    /// [`Store::claim_hashed`](crate::Store::claim_hashed).
    #[inline]
    pub fn key(&self, key: &[u8]) -> HashedKey {
        HashedKey(self.hash(key))
    }

    /// Appends to `into` what [`key`](KeyHasher::key) gives for each of many keys, in their order. Under
    /// [`Hash::Highway`], on processors that have AVX2, it takes a third of the time that one after the other takes.
    pub fn keys<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>, into: &mut Vec<HashedKey>) {
        let keys = keys.into_iter();
        into.reserve(keys.size_hint().0);
        in_pairs(
            keys,
            |keys| self.hash_two(keys),
            |hash| into.push(HashedKey(hash)),
        );
    }

    /// The [`hash`](KeyHasher::hash) of each, in less time than one after the other.
    #[inline]
    pub(crate) fn hash_two(&self, keys: [&[u8]; 2]) -> [u64; 2] {
        match &self.pairs {
            Some(pairs) => pairs.hash(keys),
            None => keys.map(|key| self.hash(key)),
        }
    }

    /// As on a processor that can't hash two keys at once.
    #[cfg(test)]
    pub(crate) fn without_pairs(self) -> Self {
        KeyHasher {
            pairs: None,
            ..self
        }
    }

    /// The 64 bits of a key whose hash the caller has computed already (`insert_hash`).
    ///
    /// The store takes the page from the high bits, and not every program's hashes are good there: a counter's are
    /// all zero. So the value is XORed with the first 8 bytes of the seed and put through the finaliser of splitmix64.
    /// That is a bijection (values that differ stay different), the same for all algorithms.
    ///
    /// It spreads, it does not protect: whoever chooses the raw values can aim at a store whose seed they know, and
    /// two keys with the same raw value are one key here. Neither does it agree with [`hash`](KeyHasher::hash): a
    /// store should be given keys or hashes, not both.
    #[inline]
    pub fn mix(&self, raw: u64) -> u64 {
        finalise(raw ^ self.word)
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}
