//! What a key's state in the table says.
//!
//! A buffer says how its keys differ from what lies below it: the sealed buffer and the pages. A key without a state is
//! as it is below. In a store that can't remove, keys only ever come: those states are the first four.
//!
//! A transaction has four states, one for each way in which it may change a key. So what a key is when the transaction
//! ends is known from the state alone, whichever way it ends.

use super::transactions::Transaction;
use super::{Buffer, Presence};

/// State of a slot without a key.
pub(super) const EMPTY: u16 = 0;
/// State of a committed key that is absent below.
pub(crate) const COMMITTED: u16 = 1;
/// State of a key that is as it is below: absent.
pub(super) const DROPPED: u16 = 2;
/// State of a key that is not in the log yet. Readers skip it.
pub(super) const CLAIMED: u16 = 3;
/// State of a removed key that is present below.
pub(super) const REMOVED: u16 = 4;
/// State of a key that is as it is below: present.
pub(super) const RESTORED: u16 = 5;
/// State of a removed key whose insert is not in the log yet.
pub(super) const UNREMOVING: u16 = 6;
/// State of a key that is present below and whose removal is not in the log yet.
pub(super) const REMOVING: u16 = 7;
/// State of a committed key whose removal is not in the log yet.
pub(super) const UNCLAIMING: u16 = 8;
/// States from here on name transactions.
pub(super) const FIRST_SEAT_STATE: u16 = 12;
/// States of each transaction.
pub(super) const VARIANTS: u16 = 4;

/// How a transaction changes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    /// Absent without it, also below.
    Insert,
    /// Removed without it, and present below.
    Restore,
    /// Present below.
    Remove,
    /// Committed without it, and absent below.
    Drop,
}

const _: () = assert!(UNCLAIMING < FIRST_SEAT_STATE && FIRST_SEAT_STATE.is_multiple_of(VARIANTS));

fn variant_of(state: u16) -> Variant {
    match state % VARIANTS {
        0 => Variant::Insert,
        1 => Variant::Restore,
        2 => Variant::Remove,
        _ => Variant::Drop,
    }
}

impl Variant {
    /// Returns the state of a key once the transaction has ended so.
    fn ended(self, outcome: Transaction) -> u16 {
        match outcome {
            Transaction::None => DROPPED,
            outcome => self.settled(outcome == Transaction::Committed),
        }
    }

    /// Returns the state of a key once the transaction is committed, or aborted.
    fn settled(self, committed: bool) -> u16 {
        match (self, committed) {
            (Variant::Insert, true) | (Variant::Drop, false) => COMMITTED,
            (Variant::Insert, false) | (Variant::Drop, true) => DROPPED,
            (Variant::Restore, true) | (Variant::Remove, false) => RESTORED,
            (Variant::Restore, false) | (Variant::Remove, true) => REMOVED,
        }
    }

    fn inserts(self) -> bool {
        matches!(self, Variant::Insert | Variant::Restore)
    }
}

/// Returns the first state of the transaction that a state names.
fn base_of(state: u16) -> u16 {
    state - state % VARIANTS
}

/// Returns the state of a key once what is claimed of it is in the log. `base` is [`COMMITTED`], or the state of the
/// transaction that claims. A key of that transaction gets back the state that it had without it.
pub(super) fn published(state: u16, base: u16) -> u16 {
    let in_transaction = base >= FIRST_SEAT_STATE;
    match state {
        UNREMOVING if in_transaction => base + 1,
        UNREMOVING => RESTORED,
        REMOVING if in_transaction => base + 2,
        REMOVING => REMOVED,
        UNCLAIMING if in_transaction => base + 3,
        UNCLAIMING => DROPPED,
        state if state >= FIRST_SEAT_STATE => variant_of(state).settled(false),
        _ => base,
    }
}

/// Returns the state that a key had before something was claimed of it.
pub(super) fn retracted(state: u16) -> u16 {
    match state {
        CLAIMED => DROPPED,
        UNREMOVING => REMOVED,
        REMOVING => RESTORED,
        UNCLAIMING => COMMITTED,
        state => state,
    }
}

/// Returns whether the state is that of a key on its way into the log.
pub(super) fn is_mark(state: u16) -> bool {
    matches!(state, CLAIMED | UNREMOVING | REMOVING | UNCLAIMING)
}

/// Returns what a key's state says if it names no transaction.
fn plain(state: u16) -> Presence {
    match state {
        COMMITTED | RESTORED | REMOVING | UNCLAIMING => Presence::Settled,
        REMOVED | UNREMOVING => Presence::Removed,
        _ => Presence::Absent,
    }
}

/// Returns by how much a key that is settled differs from below: 1 if it came, -1 if it went.
fn plain_change(state: u16) -> i64 {
    match state {
        COMMITTED | UNCLAIMING => 1,
        REMOVED | UNREMOVING => -1,
        _ => 0,
    }
}

impl Buffer {
    /// Returns the state of a key of a transaction that is over; `None` for any other.
    pub(super) fn settled_state(&self, state: u16) -> Option<u16> {
        if state < FIRST_SEAT_STATE {
            return None;
        }
        match self.transaction(state) {
            Transaction::Open(_) => None,
            outcome => Some(variant_of(state).ended(outcome)),
        }
    }

    /// Returns what a key's state says to all handles.
    pub(super) fn presence(&self, state: u16) -> Presence {
        if state < FIRST_SEAT_STATE {
            return plain(state);
        }
        let variant = variant_of(state);
        match self.transaction(state) {
            Transaction::Open(handle) if variant.inserts() => Presence::Open(handle),
            Transaction::Open(handle) => Presence::Removing(handle),
            outcome => plain(variant.ended(outcome)),
        }
    }

    /// Returns the state as it counts once the buffer is sealed: open transactions have moved on to the next buffer.
    pub(super) fn closed_state(&self, state: u16) -> u16 {
        if state < FIRST_SEAT_STATE {
            return state;
        }
        variant_of(state).ended(self.transaction(state))
    }

    /// Returns what a key's state says once the buffer is sealed.
    pub(super) fn closed_presence(&self, state: u16) -> Presence {
        plain(self.closed_state(state))
    }

    /// Returns by how much a key differs from below in what counts: 1 if it came, -1 if it went.
    pub(super) fn change(&self, state: u16) -> i64 {
        plain_change(self.closed_state(state))
    }

    /// Returns the same with open transactions, as if they were committed.
    pub(super) fn open_change(&self, state: u16) -> i64 {
        if state < FIRST_SEAT_STATE {
            return plain_change(state);
        }
        plain_change(match self.transaction(state) {
            Transaction::Open(_) => variant_of(state).settled(true),
            outcome => variant_of(state).ended(outcome),
        })
    }

    /// Returns the state that a record of the log gives to a key in this state, if the record's writer died before it
    /// could: `base` is the state of the writer's keys.
    pub(super) fn replayed(&self, state: u16, is_insert: bool, base: u16) -> Option<u16> {
        let undoes = |state: u16| variant_of(state).inserts() != is_insert;
        let follows = match state {
            CLAIMED | UNREMOVING => is_insert,
            REMOVING | UNCLAIMING => !is_insert,
            state => state >= FIRST_SEAT_STATE && base_of(state) == base && undoes(state),
        };
        follows.then(|| published(state, base))
    }
}
