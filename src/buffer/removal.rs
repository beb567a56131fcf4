//! Removing keys of a store of fingerprints, and what a checkpoint learns of it.

use std::ops::RangeInclusive;

use super::slot::Slot;
use super::state::{REMOVING, UNCLAIMING, is_mark};
use super::{Buffer, COMMITTED, Claim, Presence, Word};

/// The outcome of a claim to remove a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalClaim {
    /// The key is not there.
    Absent,
    /// The open transaction of this handle has inserted the key.
    Open(u64),
    /// The open transaction of this handle removes the key.
    Removing(u64),
    /// The removal is claimed. The caller publishes or retracts it.
    Claimed(Slot),
    /// The table is full.
    NoRoom,
}

impl Buffer {
    /// Claims the removal of a key. `is_below` says whether the key is present below this buffer, as far as it does not
    /// say otherwise itself.
    pub(crate) fn claim_removal(&self, hash: u64, is_below: bool) -> RemovalClaim {
        self.set(Word::Removals, self.get(Word::Removals).saturating_add(1));
        let (slot, state) = match self.find(hash) {
            Some((_, state)) if is_mark(state) => return RemovalClaim::Absent,
            Some(found) => found,
            None if is_below => {
                let taken = self.take_slot(hash, REMOVING);
                return taken.map_or(RemovalClaim::NoRoom, RemovalClaim::Claimed);
            }
            None => return RemovalClaim::Absent,
        };
        let mark = match self.presence(state) {
            Presence::Open(handle) => return RemovalClaim::Open(handle),
            Presence::Removing(handle) => return RemovalClaim::Removing(handle),
            Presence::Removed => return RemovalClaim::Absent,
            Presence::Absent if is_below => REMOVING,
            Presence::Absent => return RemovalClaim::Absent,
            Presence::Settled if self.closed_state(state) == COMMITTED => UNCLAIMING,
            Presence::Settled => REMOVING,
        };
        self.publish(slot, mark);
        RemovalClaim::Claimed(slot)
    }

    /// Returns whether a [`claim_removal`](Self::claim_removal) of the key would find it present.
    pub(crate) fn is_removable(&self, hash: u64, is_below: bool) -> bool {
        match self.find(hash) {
            None => is_below,
            Some((_, state)) if is_mark(state) => false,
            Some((_, state)) => match self.presence(state) {
                Presence::Settled | Presence::Open(_) => true,
                Presence::Removed | Presence::Removing(_) => false,
                Presence::Absent => is_below,
            },
        }
    }

    /// Returns the slot of a key that is in the table.
    pub(crate) fn slot_of(&self, hash: u64) -> Option<Slot> {
        self.find(hash).map(|(slot, _)| slot)
    }

    /// Inserts or removes a key of the log, for good. Returns by how much the number of keys changes; `None` if there is
    /// no room.
    pub(crate) fn apply(&self, hash: u64, is_insert: bool) -> Option<i64> {
        let slot = match is_insert {
            true => match self.claim(hash) {
                Claim::Claimed(slot) => slot,
                Claim::NoRoom => return None,
                _ => return Some(0),
            },
            // Only keys that are present are removed.
            false => match self.claim_removal(hash, true) {
                RemovalClaim::Claimed(slot) => slot,
                RemovalClaim::NoRoom => return None,
                _ => return Some(0),
            },
        };
        self.publish_claim(slot, COMMITTED);
        Some(if is_insert { 1 } else { -1 })
    }

    /// Appends the keys in a range of hashes that came and those that went, both nearly sorted, without those of open
    /// transactions.
    pub(crate) fn collect_changes(
        &self,
        hashes: RangeInclusive<u64>,
        added: &mut Vec<u64>,
        removed: &mut Vec<u64>,
    ) {
        self.for_each_in(&hashes, |hash, state| {
            match if state == COMMITTED {
                1
            } else {
                self.change(state)
            } {
                0 => {}
                1 => added.push(hash),
                _ => removed.push(hash),
            }
        });
    }
}
