//! The algorithms, their ids on disk and their names.

use std::fmt;
use std::str::FromStr;

/// The algorithm that turns the bytes of a key into 64 bits.
///
/// It is chosen when a store is created and never changes afterwards: its id is in the store's header (`FORMAT.md`,
/// section Hash). The [module](crate::hash) explains why the default is a keyed one.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hash {
    /// HighwayHash-64 under the whole seed, a keyed pseudo-random function: the default, and the right choice whenever
    /// others choose the keys. It protects as long as the seed is secret. The seed is in the store's header: anyone who
    /// can read the store can choose keys for it.
    #[default]
    Highway,
    /// XXH3-64, seeded with the first 8 bytes of the seed: the fastest, for trusted input only. The seed makes stores
    /// differ; it does not make collisions hard to find.
    Xxh3,
    /// MurmurHash3 x64-128, seeded with the first 4 bytes of the seed (the length of its own seed), reduced to the low
    /// half (`h1`) of the result: for users who know that they need it, for example to match the hashes of another
    /// program. It is slower than [`Hash::Xxh3`], and for trusted input only: keys that collide under *every* seed can
    /// be written down (a test does so).
    Murmur3,
}

impl Hash {
    const ALL: [Hash; 3] = [Hash::Highway, Hash::Xxh3, Hash::Murmur3];

    /// Returns the number of this algorithm in a store's header.
    #[must_use]
    pub fn id(self) -> u16 {
        match self {
            Hash::Highway => 1,
            Hash::Xxh3 => 2,
            Hash::Murmur3 => 3,
        }
    }

    /// Returns the algorithm with a header's number, or `None` for a number that this version does not know.
    #[must_use]
    pub fn from_id(id: u16) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Returns the name on the command line and in `info`: `highway`, `xxh3` or `murmur3`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Hash::Highway => "highway",
            Hash::Xxh3 => "xxh3",
            Hash::Murmur3 => "murmur3",
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Hash {
    type Err = UnknownHash;

    /// Parses a [`name`](Hash::name), exactly as written there.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Hash::ALL
            .into_iter()
            .find(|hash| hash.name() == name)
            .ok_or_else(|| UnknownHash {
                got: name.to_owned(),
            })
    }
}

/// A name that no [`Hash`](enum@Hash) has.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hash {got:?} is not known; use highway (the default), xxh3 or murmur3")]
pub struct UnknownHash {
    /// The name given.
    pub got: String,
}
