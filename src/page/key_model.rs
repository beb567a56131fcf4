//! What a store knows of a key.

use super::fingerprint_space::FingerprintSpace;

/// What a store knows of a key, and so what an insert or a remove in its log does to it. Each kind has one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyModel {
    /// A key is there or not, and nothing removes it: a grow-only set.
    GrowOnlySet,
    /// A key is there or not, and one remove undoes all its inserts. Keys with one fingerprint are one key.
    Set(FingerprintSpace),
    /// A key is there as often as it was inserted more often than removed.
    Multiset,
}

impl KeyModel {
    /// Returns the hash under which a key is known.
    #[inline]
    pub(crate) fn canonical(self, hash: u64) -> u64 {
        match self {
            Self::GrowOnlySet | Self::Multiset => hash,
            Self::Set(space) => space.canonical(hash),
        }
    }

    /// Returns whether it is known how often a key is there.
    pub(crate) fn has_counts(self) -> bool {
        match self {
            Self::GrowOnlySet | Self::Set(_) => false,
            Self::Multiset => true,
        }
    }

    /// Returns whether keys can be removed, so that there are fewer of them than inserts.
    #[inline]
    pub(crate) fn has_removes(self) -> bool {
        match self {
            Self::GrowOnlySet => false,
            Self::Set(_) | Self::Multiset => true,
        }
    }
}
