//! What the table answers and does by what its store knows of a key.

use std::collections::BTreeMap;

use super::{Buffer, ClosedKeys, Digest, Presence};
use crate::page::KeyModel;

impl Buffer {
    /// Holds keys of this model from now on.
    pub(crate) fn holding(mut self, model: KeyModel) -> Self {
        self.model = model;
        self
    }

    /// Returns the hash under which a key is in the table.
    #[inline]
    pub(crate) fn canonical(&self, hash: u64) -> u64 {
        self.model.canonical(hash)
    }

    /// Returns whether keys can be removed, so that the number of keys is [net](Self::net_keys).
    #[inline]
    pub(crate) fn has_removes(&self) -> bool {
        self.model.has_removes()
    }

    /// Returns whether this buffer, with the `sealed` one before it, proves that a key was inserted. It may be
    /// uncommitted.
    pub(crate) fn proves_insert(&self, sealed: Option<&Self>, hash: u64) -> bool {
        match self.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => {
                let is_settled = |sealed: &Self| sealed.lookup_closed(hash) == Presence::Settled;
                self.contains(hash) || sealed.is_some_and(is_settled)
            }
            KeyModel::Multiset => {
                let sealed = sealed.map_or(0, |sealed| sealed.net(hash));
                sealed + self.net(hash) > 0
            }
        }
    }

    /// Returns the digest of a closed buffer. It equals that of the log if the buffer is sound.
    pub(crate) fn closed_digest(&self) -> Digest {
        match self.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => ClosedKeys::of(self).digest(),
            KeyModel::Multiset => self.net_digest(0..=u64::MAX),
        }
    }

    /// Shows readers what a record of the log inserts or removes, as far as its keys are still claimed or marked, in
    /// the state `base`. The next holder of the writer lock calls this after a holder that died between the record and
    /// the publishing.
    pub(crate) fn apply_logged(
        &self,
        hashes: impl Iterator<Item = u64>,
        is_insert: bool,
        base: u16,
    ) {
        match self.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => {
                hashes.for_each(|hash| self.publish_logged(hash, is_insert, base));
            }
            KeyModel::Multiset => {
                let mut nets = BTreeMap::new();
                for hash in hashes {
                    *nets.entry(hash).or_insert(0) += if is_insert { 1 } else { -1 };
                }
                // Count each key once, with its sum: the first count clears its mark.
                for (hash, net) in nets {
                    self.count_marked(hash, net);
                }
            }
        }
    }

    /// Gives up all claims and marks that a dead holder of the writer lock left, and counts the keys again.
    pub(crate) fn retract_unlogged(&self) {
        match self.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => self.retract_claimed(),
            KeyModel::Multiset => self.unmark_all(),
        }
    }
}
