//! Claims: inserts that say whose a key is.

use crate::api::batch::BatchError;
use crate::api::key::{Key, bits_of};
use crate::api::store::Store;
use crate::engine::write::Writer;
use crate::engine::write::count::Operation;
use crate::engine::write::verdict::{OnPending, Verdict};
use crate::error::Result;
use crate::hash::KeyHasher;
use crate::prefetch::BATCH;

/// How a batch of keys is [claimed](Store::claim_batch).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClaimOptions {
    until_pending: bool,
    if_absent: bool,
}

impl ClaimOptions {
    /// Returns the defaults: all keys are claimed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the batch ends at the first key that is [pending](Verdict::Pending). The verdict of that key is then
    /// the last one, and the keys after it are left alone. A caller that acts on each new key, in order, can thus wait for
    /// the pending key with no unfinished claim of its own. It commits first, so two callers that wait for each other both
    /// go on. Defaults to `false`.
    #[must_use]
    pub fn until_pending(mut self, yes: bool) -> Self {
        self.until_pending = yes;
        self
    }

    /// Sets whether a store of [`Kind::Counting`](crate::Kind::Counting) counts only keys that are absent: then it is a
    /// set, of which each key needs one removal. Makes no difference to stores of other kinds. Defaults to `false`.
    #[must_use]
    pub fn if_absent(mut self, yes: bool) -> Self {
        self.if_absent = yes;
        self
    }

    pub(crate) fn on_pending(self) -> OnPending {
        match self.until_pending {
            true => OnPending::Stop,
            false => OnPending::GoOn,
        }
    }
}

impl Store {
    /// Does the same as [`insert`](Self::insert), but returns the full verdict.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert).
    pub fn claim(&self, key: impl Key) -> Result<Verdict> {
        Writer::of(&self.engine).claim_single(bits_of(&self.engine.hasher, &key))
    }

    /// Inserts the keys in order and returns a verdict for each. Of equal keys, also within the batch, the first is
    /// [`New`](Verdict::New).
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert), with the verdicts of the keys before the one that failed. Those keys are
    /// done, and none of the others is in the store.
    pub fn claim_batch<K: Key>(
        &self,
        keys: &[K],
        options: ClaimOptions,
    ) -> std::result::Result<Vec<Verdict>, BatchError<Verdict>> {
        let writer = Writer::of(&self.engine);
        let on_pending = options.on_pending();
        let counting = match options.if_absent {
            true => Operation::InsertUnique,
            false => Operation::Insert,
        };
        self.answers(keys, |part, verdicts| {
            match on_pending.stops_after(verdicts) {
                true => Ok(()),
                false => writer.claim_part(part, counting, on_pending, verdicts),
            }
        })
    }

    /// Renews those of some keys that the store has, without claiming the others: in a store that forgets
    /// [by when a key last came](crate::ForgetBy::Last), they are as old as an insert of now would make them. Inserts and claims
    /// do this by themselves. Changes nothing in any other store.
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert). Some of the keys may have been renewed.
    pub fn renew_batch<K: Key>(&self, keys: &[K]) -> Result<()> {
        let writer = Writer::of(&self.engine);
        let hashes: Vec<u64> = keys
            .iter()
            .map(|key| bits_of(&self.engine.hasher, key))
            .collect();
        hashes
            .chunks(BATCH)
            .try_for_each(|part| writer.renew(part, None, |_| true))
    }

    /// Returns the store's own hasher, for callers that hash keys on a different thread from the one that inserts them.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.engine.hasher
    }

    /// Returns how many keys this handle has inserted or removed since its last commit, and how many there may be.
    ///
    /// # Errors
    /// If the handle can't go on.
    pub fn uncommitted(&self) -> Result<Uncommitted> {
        self.read_once(|engine| {
            let writer = Writer::of(engine);
            Ok(Uncommitted {
                keys: writer.uncommitted()?,
                most: writer.quota(),
            })
        })
    }
}

/// What a handle has not committed; the result of [`Store::uncommitted`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncommitted {
    /// The keys that closing the handle now would drop: 0 unless the store is transactional.
    pub keys: u64,
    /// How many new keys there may be before [`Error::TransactionTooLarge`](crate::Error::TransactionTooLarge). The size
    /// of the buffer determines it; `u64::MAX` unless the store is transactional.
    pub most: u64,
}
