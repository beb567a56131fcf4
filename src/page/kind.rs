//! The kind of filter in a store, and what a store of it knows of a key.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::fingerprint_space::FingerprintSpace;
use crate::escaped::Escaped;
use crate::sizing::Cell;

/// All kinds, in the order of their numbers.
const KINDS: [Kind; 4] = [
    Kind::Bloom,
    Kind::Counting,
    Kind::Scalable,
    Kind::Fingerprint,
];

/// The kind of a store, fixed at its creation.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A filter for a fixed number of keys: `k` bits per key, all in one page. The default of a store with a capacity.
    Bloom,
    /// A filter for a fixed number of keys that can also remove one: `k` counters of four bits per key, all in one
    /// page. It takes four times the room of [`Kind::Bloom`].
    Counting,
    /// A filter that grows: layers of [`Kind::Bloom`], each larger and stricter than the last.
    Scalable,
    /// A sorted set of fingerprints, packed: it grows without layers, can remove keys, and takes a quarter less room than
    /// [`Kind::Bloom`] at its limit. The default of a store without a capacity.
    Fingerprint,
}

impl Kind {
    /// Returns the number of the kind in a store's header (FORMAT.md, "Header").
    pub(crate) fn id(self) -> u16 {
        match self {
            Kind::Bloom => 1,
            Kind::Counting => 2,
            Kind::Scalable => 3,
            Kind::Fingerprint => 4,
        }
    }

    pub(crate) fn from_id(id: u16) -> Option<Self> {
        match id {
            1 => Some(Kind::Bloom),
            2 => Some(Kind::Counting),
            3 => Some(Kind::Scalable),
            4 => Some(Kind::Fingerprint),
            _ => None,
        }
    }

    /// Returns the kind of cell in its pages. Packed fingerprints are bits as well.
    #[must_use]
    pub fn cell(self) -> Cell {
        match self {
            Kind::Counting => Cell::Counter,
            Kind::Bloom | Kind::Scalable | Kind::Fingerprint => Cell::Bit,
        }
    }

    /// Returns the kind of a new store for which none was asked, by what else was. Layers are not the default; options that
    /// shape them still get them.
    pub(crate) fn default_for(has_capacity: bool, shapes_layers: bool) -> Self {
        match (has_capacity, shapes_layers) {
            (true, _) => Kind::Bloom,
            (false, true) => Kind::Scalable,
            (false, false) => Kind::Fingerprint,
        }
    }

    /// Returns whether it counts how often a key was inserted. Such a store has no transactions, and no sample.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Kind::Counting)
    }

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bloom => "bloom",
            Kind::Counting => "counting",
            Kind::Scalable => "scalable",
            Kind::Fingerprint => "fingerprint",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A name that belongs to no kind.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no kind `{got}`; there are bloom, counting, scalable and fingerprint", got = Escaped(got))]
pub struct UnknownKind {
    /// The name given.
    pub got: String,
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        KINDS
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind {
                got: name.to_owned(),
            })
    }
}

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

    /// Returns all hashes that are known as one key with this one.
    pub(crate) fn alike(self, hash: u64) -> RangeInclusive<u64> {
        match self {
            Self::GrowOnlySet | Self::Multiset => hash..=hash,
            Self::Set(space) => {
                let fingerprint = space.fingerprint(hash);
                space.hashes(fingerprint..space.behind(fingerprint))
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_go_there_and_back() {
        for kind in KINDS {
            assert_eq!(Kind::from_id(kind.id()), Some(kind));
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!(Kind::from_id(0), None);
        let got = "cuckoo".to_owned();
        assert_eq!("cuckoo".parse::<Kind>(), Err(UnknownKind { got }));
    }
}
