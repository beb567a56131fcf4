//! Removing keys of a store of fingerprints.

use super::bucket::Slot;
use super::state::{FIRST_SLOT_STATE, REMOVING, UNCLAIMING, UNRESTORING, is_mark};
use super::{Buffer, COMMITTED, Claim, OpenChange, Presence, Word};

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

/// What there is to do to remove a key.
enum Step {
    /// Nothing, and this is the answer.
    None(RemovalClaim),
    /// The key's slot gets this state.
    Mark(Slot, u16),
    /// The key gets a slot.
    TakeSlot,
}

impl Buffer {
    fn removal_step(&self, hash: u64, is_below: bool) -> Step {
        let (slot, state) = match self.find(hash) {
            Some((_, state)) if is_mark(state) => return Step::None(RemovalClaim::Absent),
            Some(found) => found,
            None if is_below => return Step::TakeSlot,
            None => return Step::None(RemovalClaim::Absent),
        };
        match self.presence(state) {
            Presence::Open(handle) => Step::None(RemovalClaim::Open(handle)),
            Presence::Removing(handle) | Presence::RemovingBelow(handle) => {
                Step::None(RemovalClaim::Removing(handle))
            }
            Presence::Removed => Step::None(RemovalClaim::Absent),
            Presence::Absent if is_below => Step::Mark(slot, REMOVING),
            Presence::Absent => Step::None(RemovalClaim::Absent),
            Presence::Settled if self.closed_state(state) == COMMITTED => {
                Step::Mark(slot, UNCLAIMING)
            }
            Presence::Settled => Step::Mark(slot, UNRESTORING),
        }
    }

    /// Claims the removal of a key. `is_below` says whether the key is present below this buffer, as far as it does not
    /// say otherwise itself.
    pub(crate) fn claim_removal(&self, hash: u64, is_below: bool) -> RemovalClaim {
        self.set(Word::Removals, self.get(Word::Removals).saturating_add(1));
        match self.removal_step(hash, is_below) {
            Step::None(answer) => answer,
            Step::Mark(slot, mark) => {
                self.publish(slot, mark);
                RemovalClaim::Claimed(slot)
            }
            Step::TakeSlot => {
                let taken = self.take_slot(hash, REMOVING);
                taken.map_or(RemovalClaim::NoRoom, RemovalClaim::Claimed)
            }
        }
    }

    /// Returns whether a [`claim_removal`](Self::claim_removal) of the key would find it present.
    pub(crate) fn is_removable(&self, hash: u64, is_below: bool) -> bool {
        match self.removal_step(hash, is_below) {
            Step::None(answer) => matches!(answer, RemovalClaim::Open(_)),
            Step::Mark(..) | Step::TakeSlot => true,
        }
    }

    /// Returns the slot of a key that is in the table.
    pub(crate) fn slot_of(&self, hash: u64) -> Option<Slot> {
        self.find(hash).map(|(slot, _)| slot)
    }

    /// Inserts or removes a key of the log, for good. Returns by how much the number of keys changes; `None` if there is
    /// no room.
    pub(crate) fn apply(&self, hash: u64, is_insert: bool) -> Option<i64> {
        self.change_in(hash, is_insert, COMMITTED)
    }

    /// Inserts or removes a key, in the state of the transaction that has done so. Only what is absent is inserted, and
    /// only what is present removed. Returns by how much the number of keys changes; `None` if there is no room.
    pub(crate) fn change_in(&self, hash: u64, is_insert: bool, state: u16) -> Option<i64> {
        let own = |handle| state >= FIRST_SLOT_STATE && self.is_open(state, handle);
        let slot = match is_insert {
            true => match self.claim(hash) {
                Claim::Claimed(slot) => slot,
                Claim::Removing(handle) if own(handle) => self.slot_of(hash)?,
                Claim::NoRoom => return None,
                _ => return Some(0),
            },
            false => match self.claim_removal(hash, true) {
                RemovalClaim::Claimed(slot) => slot,
                RemovalClaim::Open(handle) if own(handle) => self.slot_of(hash)?,
                RemovalClaim::NoRoom => return None,
                _ => return Some(0),
            },
        };
        self.publish_claim(slot, state);
        Some(if is_insert { 1 } else { -1 })
    }

    /// Returns what a handle's open transaction has done to a key; `None` if nothing.
    pub(crate) fn open_change(&self, hash: u64, handle: u64) -> Option<OpenChange> {
        let (_, state) = self.find(hash)?;
        self.open_change_of(state, handle)
    }
}
