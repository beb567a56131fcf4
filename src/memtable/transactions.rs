//! Transactions of a buffer. A key's state may name one, and the key counts once that transaction is committed.
//!
//! A commit is thus one store for any number of keys, and a death between two stores leaves it either done or not done.
//! A transaction belongs to one handle and one buffer.

use super::state::{FIRST_SLOT_STATE, VARIANTS};
use super::{Buffer, HEADER_WORDS, MOST_TRANSACTIONS, Word};
use crate::sys::sync::{AtomicU64, Ordering};

/// The status of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// Open, and owned by this handle.
    Open(u64),
    Committed,
    Aborted,
    /// No writer gives this state to a key.
    None,
}

/// Returns the first of the states that name a transaction.
fn state_at(index: u64) -> u16 {
    debug_assert!(index < MOST_TRANSACTIONS, "{index}");
    FIRST_SLOT_STATE + index as u16 * VARIANTS
}

const _: () = assert!(
    FIRST_SLOT_STATE as u64 + MOST_TRANSACTIONS * VARIANTS as u64 <= 1 << 16,
    "a state takes 16 bits"
);

const FREE: u64 = 0;
const COMMITTED_WORD: u64 = 1;
const ABORTED_WORD: u64 = 2;
/// The word of an open transaction is its handle's number, shifted, with this bit.
const OPEN_BIT: u64 = 4;

impl Buffer {
    /// Returns the word of a transaction, or `None` for a state that names no transaction.
    #[inline]
    fn transaction_word(&self, state: u16) -> Option<&AtomicU64> {
        if state < FIRST_SLOT_STATE || u64::from(state) >= self.states_end() {
            return None;
        }
        let index = (state - FIRST_SLOT_STATE) / VARIANTS;
        self.region
            .words()
            .get(HEADER_WORDS as usize + usize::from(index))
    }

    /// Returns the end of the valid states: no key has this state or a higher one.
    pub(super) fn states_end(&self) -> u64 {
        u64::from(FIRST_SLOT_STATE) + self.transactions * u64::from(VARIANTS)
    }

    fn load_transaction(&self, state: u16) -> Option<u64> {
        Some(self.transaction_word(state)?.load(Ordering::Acquire))
    }

    fn store_transaction(&self, state: u16, word: u64) {
        if let Some(place) = self.transaction_word(state) {
            place.store(word, Ordering::Release);
        }
    }

    /// Begins a transaction for a handle and returns the state of its keys. When no transaction is free, sweeps the
    /// finished ones out of the table; returns `None` if all are open.
    pub(crate) fn begin_transaction(&self, handle: u64) -> Option<u16> {
        // With lost upper bits, it would be another handle's transaction.
        assert!(handle <= u64::MAX >> 3, "{handle}");
        self.take_transaction(handle).or_else(|| {
            self.sweep_transactions();
            self.take_transaction(handle)
        })
    }

    fn take_transaction(&self, handle: u64) -> Option<u16> {
        let next = self.get(Word::NextTransaction);
        let state = (next..self.transactions)
            .map(state_at)
            .find(|state| self.load_transaction(*state) == Some(FREE))?;
        self.store_transaction(state, handle << 3 | OPEN_BIT);
        self.set(
            Word::NextTransaction,
            u64::from((state - FIRST_SLOT_STATE) / VARIANTS) + 1,
        );
        Some(state)
    }

    /// Returns the status of the transaction that a state names.
    #[inline]
    pub(crate) fn transaction(&self, state: u16) -> Transaction {
        match self.load_transaction(state) {
            Some(word) if word & OPEN_BIT != 0 => Transaction::Open(word >> 3),
            Some(COMMITTED_WORD) => Transaction::Committed,
            Some(_) => Transaction::Aborted,
            None => {
                self.note_nonsense(state);
                Transaction::None
            }
        }
    }

    #[cold]
    fn note_nonsense(&self, state: u16) {
        self.nonsense.store(u64::from(state), Ordering::Relaxed);
    }

    /// Commits the transaction: all its keys count from now on.
    pub(crate) fn commit_transaction(&self, state: u16) {
        self.store_transaction(state, COMMITTED_WORD);
    }

    /// Aborts the transaction: none of its keys counts.
    pub(crate) fn abort_transaction(&self, state: u16) {
        self.store_transaction(state, ABORTED_WORD);
    }

    /// Aborts a transaction whose keys no other buffer has. What a look-up took for its changes may be below.
    pub(crate) fn give_up_transaction(&self, state: u16) {
        // A holder of the writer lock may have died in between.
        let odd = self.get(Word::Aborts).saturating_add(1) | 1;
        self.set(Word::Aborts, odd);
        self.abort_transaction(state);
        self.set(Word::Aborts, odd.saturating_add(1));
    }

    /// Returns all open transactions with their handles.
    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (0..self.transactions).filter_map(|index| {
            let state = state_at(index);
            match self.transaction(state) {
                Transaction::Open(handle) => Some((state, handle)),
                _ => None,
            }
        })
    }

    /// Writes the outcome of each key's transaction into the key's own state, and frees the finished transactions.
    ///
    /// A reader may load a state just before the sweep and look up its transaction just after, when the number names
    /// another one. A reader's "pending" is therefore a hint, and the holder of the writer lock decides.
    fn sweep_transactions(&self) {
        self.for_each_key(|slot, state| {
            if let Some(checkpointed) = self.settled_state(state) {
                self.publish(slot, checkpointed);
            }
        });
        for index in 0..self.transactions {
            let state = state_at(index);
            if self
                .load_transaction(state)
                .is_some_and(|word| word & OPEN_BIT == 0)
            {
                self.store_transaction(state, FREE);
            }
        }
        self.set(Word::NextTransaction, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Claim, Presence};
    use super::*;

    #[test]
    fn transactions_are_used_again_once_they_are_over() {
        let buffer = Buffer::private(1 << 16, 1).unwrap();
        let open = buffer.begin_transaction(77).unwrap();
        let Claim::Claimed(slot) = buffer.claim(1) else {
            panic!("an empty buffer has room");
        };
        buffer.publish(slot, open);
        for round in 0..10_000_u64 {
            let state = buffer.begin_transaction(round).unwrap();
            assert_ne!(state, open);
            if round % 100 == 0 {
                let Claim::Claimed(slot) = buffer.claim(1000 + round) else {
                    panic!("there is room");
                };
                buffer.publish(slot, state);
            }
            if round % 200 == 0 {
                buffer.abort_transaction(state);
            } else {
                buffer.commit_transaction(state);
            }
        }
        assert_eq!(buffer.lookup(1), Presence::Open(77));
        assert_eq!(buffer.lookup(1000 + 100), Presence::Settled);
        assert_eq!(buffer.lookup(1000 + 200), Presence::Absent);
        let all_open: Vec<_> = buffer.open_transactions().collect();
        assert_eq!(all_open, [(open, 77)]);
    }

    #[test]
    fn when_all_are_open_there_is_none() {
        let buffer = Buffer::private(1 << 12, 1).unwrap();
        let mut begun = 0;
        while buffer.begin_transaction(begun).is_some() {
            begun += 1;
        }
        assert_eq!(begun, 64);
        buffer.abort_transaction(state_at(9));
        assert_eq!(buffer.begin_transaction(5), Some(state_at(9)));
    }
}
