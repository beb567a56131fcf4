//! An algorithm and a seed, ready to hash one key or two at a time.

use std::fmt;
use std::num::NonZero;

use highway::{HighwayHash, HighwayHasher, Key};

use super::{Hash, finalise};
use crate::sys::Pairs;

/// A store's representation of a key: the key's 64 bits under the store's seed, as [`KeyHasher::key`] returns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HashedKey(u64);

impl HashedKey {
    /// Takes up the 64 bits of a key that a [`KeyHasher`] has hashed, in this process or another one.
    #[inline]
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        HashedKey(bits)
    }

    /// Returns the 64 bits.
    #[inline]
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns the shard of this key, from 0 on, in a set that is divided into `shards` stores.
    ///
    /// The hash is mixed first: pages are taken from its high bits and samples from its low ones, so each shard's keys
    /// lie in all pages of its store. A set of `f × shards` stores divides each shard into `f` consecutive ones.
    /// `FORMAT.md` ("From hash to shard") has the function with vectors; it never changes.
    #[inline]
    #[must_use]
    pub fn shard(self, shards: NonZero<u32>) -> u32 {
        let mixed = u128::from(finalise(self.0 ^ SHARD_SALT));
        debug_assert!((mixed * u128::from(shards.get())) >> 64 < u128::from(shards.get()));
        // Below `shards`, so it fits.
        ((mixed * u128::from(shards.get())) >> 64) as u32
    }
}

/// Keeps the choice of a shard apart from the draws in a page, which begin with the same finaliser. The first 64 bits
/// of the fraction of the square root of 7.
const SHARD_SALT: u64 = 0xA54F_F53A_5F1D_36F1;

/// A [`Hash`](enum@Hash) with a store's 32-byte seed: the function from a key to its 64 bits.
///
/// Hashing does not change it, so threads can share one. Its `Debug` form omits the seed.
#[derive(Clone)]
pub struct KeyHasher {
    hash: Hash,
    /// The state after the key schedule. A hash copies it, which is a sixth faster than calling `HighwayHasher::new`
    /// for each key: that call detects the CPU's features and schedules the key again. Present under every algorithm.
    highway: HighwayHasher,
    /// The same for two keys at once. It is `None` under other algorithms and on processors that can't; two keys are
    /// then hashed one after the other.
    pairs: Option<Pairs>,
    /// The first 8 bytes of the seed, little-endian.
    word: u64,
}

impl KeyHasher {
    /// Creates the hasher of `hash` under `seed`.
    ///
    /// For [`Hash::Highway`] the seed is the secret, so it should come from the system's random source; this function
    /// does not check that.
    #[must_use]
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

    /// Returns the 64 bits of a key. Any bytes form a key, including none at all, and any of the 2^64 values may
    /// result.
    #[inline]
    #[must_use]
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

    /// Returns the same as a [`HashedKey`], the form in which a store accepts [keys](crate::Key) that were hashed elsewhere.
    #[inline]
    #[must_use]
    pub fn key(&self, key: &[u8]) -> HashedKey {
        HashedKey(self.hash(key))
    }

    /// Appends to `into` the result of [`key`](KeyHasher::key) for each of many keys, in their order. Under
    /// [`Hash::Highway`], on processors with AVX2, it takes a third of the time of single calls.
    pub fn keys<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>, into: &mut Vec<HashedKey>) {
        let keys = keys.into_iter();
        into.reserve(keys.size_hint().0);
        in_pairs(
            keys,
            |keys| self.hash_two(keys),
            |hash| into.push(HashedKey(hash)),
        );
    }

    /// Returns the [`hash`](KeyHasher::hash) of each key, in less time than two calls.
    #[inline]
    pub(crate) fn hash_two(&self, keys: [&[u8]; 2]) -> [u64; 2] {
        match &self.pairs {
            Some(pairs) => pairs.hash(keys),
            None => keys.map(|key| self.hash(key)),
        }
    }

    /// Returns a hasher that works as on a processor that can't hash two keys at once.
    #[cfg(test)]
    pub(crate) fn without_pairs(self) -> Self {
        KeyHasher {
            pairs: None,
            ..self
        }
    }

    /// Returns the 64 bits of a key whose hash the caller has already computed (`insert_hash`).
    ///
    /// The store takes the page from the high bits, and not every program's hashes are good there: a counter's are all
    /// zero. The value is therefore XORed with the first 8 bytes of the seed and passed through the finaliser of
    /// splitmix64. That is a bijection (values that differ stay different), the same for all algorithms.
    ///
    /// It spreads but does not protect: an attacker who chooses the raw values can aim at a store whose seed they know,
    /// and two keys with the same raw value are one key here. It also disagrees with [`hash`](KeyHasher::hash): a store
    /// should receive keys or hashes, not both.
    #[inline]
    #[must_use]
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

/// Passes on the hashes of keys, in their order, using a function that hashes two keys at once. If the number of keys
/// is odd, the function receives the last one twice.
#[inline]
pub(crate) fn in_pairs<K: Copy>(
    keys: impl IntoIterator<Item = K>,
    hash: impl Fn([K; 2]) -> [u64; 2],
    mut each: impl FnMut(u64),
) {
    let mut keys = keys.into_iter();
    while let Some(first) = keys.next() {
        let second = keys.next();
        let hashes = hash([first, second.unwrap_or(first)]);
        each(hashes[0]);
        if second.is_some() {
            each(hashes[1]);
        }
    }
}
