//! What a key's state in the table says.
//!
//! A buffer says what the records of its log have made of a key, of which the last one decides: after an insert it is
//! there, after a remove it is not, whatever lies below (the sealed buffer and the pages). A key without a record that
//! counts is as it is below. In a store of fingerprints a key stands for all hashes with its fingerprint, and some of these
//! may be exempt, so a state never says whether a key is present below.
//!
//! Inserts and removes of one key take turns. So its first and its last record tell what their sum is, which the digests of
//! buffer and log are compared by:
//!
//! ```text
//!                  insert            remove
//!     (none) ----> COMMITTED --+--> WITHDRAWN --+   insert: COMMITTED again
//!        |            +1       |        0       |
//!        |                     +----------------+
//!        |         remove            insert
//!        +-------> REMOVED ----+--> RESTORED ---+   remove: REMOVED again
//!                     -1       |        0       |
//!                              +----------------+
//! ```
//!
//! In a store that can't remove, keys only ever come: those states are the first four.
//!
//! A transaction has eight states, one for each way in which it may change a key. So what a key is when the transaction
//! ends is known from the state alone, whichever way it ends.

use super::transactions::Transaction;
use super::{Buffer, OpenChange, Presence};

/// State of a slot without a key.
pub(super) const EMPTY: u16 = 0;
/// State of a key whose first record is an insert, and so is its last.
pub(crate) const COMMITTED: u16 = 1;
/// State of a key without a record that counts: it is as it is below.
pub(super) const DROPPED: u16 = 2;
/// State of a key that is as it is below and whose insert is not in the log yet.
pub(super) const CLAIMED: u16 = 3;
/// State of a key whose first record is a remove, and so is its last.
pub(super) const REMOVED: u16 = 4;
/// State of a key whose first record is a remove and its last an insert.
pub(super) const RESTORED: u16 = 5;
/// State of a key whose first record is an insert and its last a remove.
pub(super) const WITHDRAWN: u16 = 6;
/// State of a [`REMOVED`] key whose insert is not in the log yet.
pub(super) const UNREMOVING: u16 = 7;
/// State of a [`WITHDRAWN`] key whose insert is not in the log yet.
pub(super) const UNWITHDRAWING: u16 = 8;
/// State of a key that is as it is below and whose remove is not in the log yet.
pub(super) const REMOVING: u16 = 9;
/// State of a [`COMMITTED`] key whose remove is not in the log yet.
pub(super) const UNCLAIMING: u16 = 10;
/// State of a [`RESTORED`] key whose remove is not in the log yet.
pub(super) const UNRESTORING: u16 = 11;
/// States from here on name transactions.
pub(super) const FIRST_SLOT_STATE: u16 = 16;
/// States of each transaction.
pub(super) const VARIANTS: u16 = 8;

/// How a transaction changes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    /// Its first record of a key without one is an insert, and so is its last.
    Insert,
    /// The same with a remove.
    Remove,
    /// Its first record of a key without one is an insert, and its last a remove.
    InsertAndRemove,
    /// The same the other way round.
    RemoveAndInsert,
    /// It removes a [`COMMITTED`] key.
    Withdraw,
    /// It removes a [`RESTORED`] key.
    RemoveAgain,
    /// It inserts a [`WITHDRAWN`] key.
    InsertAgain,
    /// It inserts a [`REMOVED`] key.
    Restore,
}

const _: () = assert!(UNRESTORING < FIRST_SLOT_STATE && FIRST_SLOT_STATE.is_multiple_of(VARIANTS));

fn variant_of(state: u16) -> Variant {
    debug_assert!(state >= FIRST_SLOT_STATE, "{state} is of no transaction");
    match state % VARIANTS {
        0 => Variant::Insert,
        1 => Variant::Remove,
        2 => Variant::InsertAndRemove,
        3 => Variant::RemoveAndInsert,
        4 => Variant::Withdraw,
        5 => Variant::RemoveAgain,
        6 => Variant::InsertAgain,
        _ => Variant::Restore,
    }
}

impl Variant {
    /// Returns the state of a key without the transaction, and with it.
    fn states(self) -> (u16, u16) {
        match self {
            Variant::Insert => (DROPPED, COMMITTED),
            Variant::Remove => (DROPPED, REMOVED),
            Variant::InsertAndRemove => (DROPPED, WITHDRAWN),
            Variant::RemoveAndInsert => (DROPPED, RESTORED),
            Variant::Withdraw => (COMMITTED, WITHDRAWN),
            Variant::RemoveAgain => (RESTORED, REMOVED),
            Variant::InsertAgain => (WITHDRAWN, COMMITTED),
            Variant::Restore => (REMOVED, RESTORED),
        }
    }

    /// Returns the state of a key once the transaction has ended so.
    fn ended(self, outcome: Transaction) -> u16 {
        match outcome {
            Transaction::None => DROPPED,
            outcome => self.checkpointed(outcome == Transaction::Committed),
        }
    }

    /// Returns the state of a key once the transaction is committed, or aborted.
    fn checkpointed(self, committed: bool) -> u16 {
        let (without, with) = self.states();
        if committed { with } else { without }
    }

    /// Returns whether the transaction's last record of the key is an insert.
    fn inserts(self) -> bool {
        plain(self.checkpointed(true)) == Presence::Settled
    }

    /// Returns what the records of the transaction, which is open, are.
    fn change(self) -> OpenChange {
        match self {
            Variant::Insert | Variant::InsertAgain | Variant::Restore => OpenChange::Insert,
            Variant::Remove | Variant::Withdraw | Variant::RemoveAgain => OpenChange::Remove,
            Variant::InsertAndRemove => OpenChange::InsertAndRemove,
            Variant::RemoveAndInsert => OpenChange::RemoveAndInsert,
        }
    }
}

/// Returns whether a state is that of an open transaction without which the key is as it is below.
pub(super) fn is_over_below(state: u16) -> bool {
    state >= FIRST_SLOT_STATE && variant_of(state).checkpointed(false) == DROPPED
}

/// Returns the first state of the transaction that a state names.
fn base_of(state: u16) -> u16 {
    state - state % VARIANTS
}

/// Returns the state of a key of an open transaction after its next record of the key. Where the key had records before
/// the transaction, two of its own cancel each other out: what decided before it decides again.
fn turned(state: u16) -> u16 {
    let base = base_of(state);
    match variant_of(state) {
        Variant::Insert => base + 2,
        Variant::Remove => base + 3,
        Variant::InsertAndRemove => base,
        Variant::RemoveAndInsert => base + 1,
        again => again.checkpointed(false),
    }
}

/// Returns the state of a key once what is claimed of it is in the log. `base` is [`COMMITTED`], or the state of the
/// transaction that claims, which may have changed the key before.
pub(super) fn published(state: u16, base: u16) -> u16 {
    let in_transaction = base >= FIRST_SLOT_STATE;
    match state {
        REMOVING if in_transaction => base + 1,
        REMOVING => REMOVED,
        UNCLAIMING if in_transaction => base + 4,
        UNCLAIMING => WITHDRAWN,
        UNRESTORING if in_transaction => base + 5,
        UNRESTORING => REMOVED,
        UNWITHDRAWING if in_transaction => base + 6,
        UNWITHDRAWING => COMMITTED,
        UNREMOVING if in_transaction => base + 7,
        UNREMOVING => RESTORED,
        state if state >= FIRST_SLOT_STATE => turned(state),
        _ => base,
    }
}

/// Returns the state that a key had before something was claimed of it.
pub(super) fn retracted(state: u16) -> u16 {
    match state {
        CLAIMED | REMOVING => DROPPED,
        UNREMOVING => REMOVED,
        UNWITHDRAWING => WITHDRAWN,
        UNCLAIMING => COMMITTED,
        UNRESTORING => RESTORED,
        state => state,
    }
}

/// Returns whether the state is that of a key on its way into the log.
pub(super) fn is_mark(state: u16) -> bool {
    matches!(
        state,
        CLAIMED | UNREMOVING | UNWITHDRAWING | REMOVING | UNCLAIMING | UNRESTORING
    )
}

/// Returns whether the state is that of a key whose insert is on its way into the log.
pub(super) fn is_insert_mark(state: u16) -> bool {
    matches!(state, CLAIMED | UNREMOVING | UNWITHDRAWING)
}

/// Returns what a key's state says if it names no transaction.
fn plain(state: u16) -> Presence {
    match state {
        COMMITTED | RESTORED | UNCLAIMING | UNRESTORING => Presence::Settled,
        REMOVED | WITHDRAWN | UNREMOVING | UNWITHDRAWING => Presence::Removed,
        _ => Presence::Absent,
    }
}

/// Returns the sum of a key's records, inserts less removes, by its state.
fn plain_sum(state: u16) -> i64 {
    match state {
        COMMITTED | UNCLAIMING => 1,
        REMOVED | UNREMOVING => -1,
        _ => 0,
    }
}

impl Buffer {
    /// Returns the state of a key of a transaction that is over; `None` for any other.
    pub(super) fn settled_state(&self, state: u16) -> Option<u16> {
        if state < FIRST_SLOT_STATE {
            return None;
        }
        match self.transaction(state) {
            Transaction::Open(_) => None,
            outcome => Some(variant_of(state).ended(outcome)),
        }
    }

    /// Returns what a key's state says to all handles.
    pub(super) fn presence(&self, state: u16) -> Presence {
        if state < FIRST_SLOT_STATE {
            return plain(state);
        }
        let variant = variant_of(state);
        match self.transaction(state) {
            Transaction::Open(handle) if variant.inserts() => Presence::Open(handle),
            Transaction::Open(handle) => match variant {
                Variant::Withdraw | Variant::RemoveAgain => Presence::Removing(handle),
                _ => Presence::RemovingBelow(handle),
            },
            outcome => plain(variant.ended(outcome)),
        }
    }

    /// Returns what a handle's open transaction has done to a key in this state; `None` if nothing.
    pub(super) fn open_change_of(&self, state: u16, handle: u64) -> Option<OpenChange> {
        let is_its_own = state >= FIRST_SLOT_STATE && self.is_open(state, handle);
        is_its_own.then(|| variant_of(state).change())
    }

    /// Returns the state as it counts once the buffer is sealed: open transactions have moved on to the next buffer.
    pub(super) fn closed_state(&self, state: u16) -> u16 {
        if state < FIRST_SLOT_STATE {
            return state;
        }
        variant_of(state).ended(self.transaction(state))
    }

    /// Returns what a key's state says once the buffer is sealed.
    pub(super) fn closed_presence(&self, state: u16) -> Presence {
        plain(self.closed_state(state))
    }

    /// Returns the sum of a key's records that count.
    pub(super) fn sum_of(&self, state: u16) -> i64 {
        plain_sum(self.closed_state(state))
    }

    /// Returns what a key's last record that counts is: 1 for an insert, -1 for a remove, 0 if there is none.
    pub(super) fn last_of(&self, state: u16) -> i64 {
        match self.closed_presence(state) {
            Presence::Settled => 1,
            Presence::Removed => -1,
            _ => 0,
        }
    }

    /// Returns the sum of a key's records with those of open transactions, as if they were committed.
    pub(super) fn open_sum_of(&self, state: u16) -> i64 {
        if state < FIRST_SLOT_STATE {
            return plain_sum(state);
        }
        plain_sum(match self.transaction(state) {
            Transaction::Open(_) => variant_of(state).checkpointed(true),
            outcome => variant_of(state).ended(outcome),
        })
    }

    /// Returns the state that a record of the log gives to a key in this state, if the record's writer died before it
    /// could: `base` is the state of the writer's keys.
    pub(super) fn replayed(&self, state: u16, is_insert: bool, base: u16) -> Option<u16> {
        let follows = match state {
            state if is_mark(state) => is_insert_mark(state) == is_insert,
            state if state >= FIRST_SLOT_STATE => {
                base_of(state) == base && variant_of(state).inserts() != is_insert
            }
            _ => false,
        };
        follows.then(|| published(state, base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last of a key's records, `true` for an insert.
    type Ends = Option<(bool, bool)>;

    fn after(ends: Ends, is_insert: bool) -> Ends {
        Some((ends.map_or(is_insert, |(first, _)| first), is_insert))
    }

    fn state_of(ends: Ends) -> u16 {
        match ends {
            None => DROPPED,
            Some((true, true)) => COMMITTED,
            Some((true, false)) => WITHDRAWN,
            Some((false, false)) => REMOVED,
            Some((false, true)) => RESTORED,
        }
    }

    /// Returns the mark of the next record of a key in a state.
    fn mark_of(state: u16, is_insert: bool) -> u16 {
        match (state, is_insert) {
            (DROPPED, true) => CLAIMED,
            (DROPPED, false) => REMOVING,
            (COMMITTED, false) => UNCLAIMING,
            (RESTORED, false) => UNRESTORING,
            (REMOVED, true) => UNREMOVING,
            (WITHDRAWN, true) => UNWITHDRAWING,
            other => panic!("{other:?} take no turns"),
        }
    }

    /// The slow twin keeps the first and the last record. All short histories: some records that count, some of a
    /// transaction, and its end.
    #[test]
    fn states_tell_the_first_and_the_last_record() {
        let base = FIRST_SLOT_STATE + 3 * VARIANTS;
        for (first, count, own, committed) in
            (0..160).map(|n| (n & 1 == 1, n / 2 % 5, n / 10 % 8, n / 80 == 1))
        {
            let mut turns = [first, !first].into_iter().cycle();
            let (mut ends, mut state) = (None, DROPPED);
            for _ in 0..count {
                let is_insert = turns.next().unwrap();
                let mark = mark_of(state, is_insert);
                assert_eq!(retracted(mark), state);
                assert_eq!(is_insert_mark(mark), is_insert);
                ends = after(ends, is_insert);
                state = published(mark, COMMITTED);
                assert_eq!(state, state_of(ends));
            }
            let (without, before) = (ends, state);
            for _ in 0..own {
                let is_insert = turns.next().unwrap();
                ends = after(ends, is_insert);
                state = match state < FIRST_SLOT_STATE {
                    true => published(mark_of(state, is_insert), base),
                    false => published(state, base),
                };
                let (is_open, last) = (state >= FIRST_SLOT_STATE, ends.map(|(_, last)| last));
                if is_open {
                    assert_eq!(base_of(state), base);
                    assert_eq!(Some(variant_of(state).inserts()), last);
                    assert_eq!(variant_of(state).checkpointed(false), before);
                } else {
                    assert_eq!(state, before);
                }
            }
            let ended = match state < FIRST_SLOT_STATE {
                true => state,
                false => variant_of(state).checkpointed(committed),
            };
            let counted = if committed { ends } else { without };
            assert_eq!(
                ended,
                state_of(counted),
                "{first} {count} {own} {committed}"
            );
            let sum = match counted {
                Some((first, last)) if first == last => {
                    if first {
                        1
                    } else {
                        -1
                    }
                }
                _ => 0,
            };
            assert_eq!(plain_sum(ended), sum);
        }
    }
}
