//! What only a counting store can do: removing keys, and telling how often they are there.

use crate::error::Result;
use crate::hash::HashedKey;
use crate::store::api::store::Store;
use crate::store::read::Reader;
use crate::store::write::Writer;
use crate::store::write::count::{Counted, Operation};
use crate::store::write::verdict::Verdict;

/// What became of a key that was to be removed by [`Store::remove_recent`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Removal {
    /// It is there once less.
    Removed,
    /// It is not there, for certain.
    Absent,
    /// It tests positive, and nothing proves that it was inserted. Nothing has changed.
    Unproven,
}

impl From<Counted> for Removal {
    fn from(counted: Counted) -> Self {
        match counted {
            Counted { done: true, .. } => Removal::Removed,
            Counted {
                was_there: true, ..
            } => Removal::Unproven,
            Counted { .. } => Removal::Absent,
        }
    }
}

/// Counting stores ([`Kind::Counting`](crate::Kind::Counting)) are multisets: a key that was inserted
/// twice is there until it has been removed twice. Who wants a set inserts with
/// [`insert_unique`](Self::insert_unique).
///
/// A key's counters end at 15, and one that has got there stays: the key, and whichever others share
/// all their counters with such, can't be removed any more.
impl Store {
    /// Takes the key out once, and answers whether it was there: if not, nothing has changed.
    ///
    /// When it returns, the removal outlives the process, and after the next
    /// [`commit`](Self::commit) power loss too.
    ///
    /// **Remove only what was inserted.** A key that never was tests positive at the false-positive
    /// rate; removing it counts down what belongs to other keys, which may be absent then although they
    /// were never removed. Nothing here can notice that. [`remove_recent`](Self::remove_recent) can, for
    /// keys that were inserted lately.
    ///
    /// # Errors
    /// [`Error::NotCounting`](crate::Error::NotCounting) in a store of another kind; otherwise as
    /// [`insert`](Self::insert).
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.remove_bits(self.engine.hasher.hash(key))
    }

    /// As [`remove`](Self::remove), for callers who bring their own hash.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_hash(&self, hash: u64) -> Result<bool> {
        self.remove_bits(self.engine.hasher.mix(hash))
    }

    fn remove_bits(&self, bits: u64) -> Result<bool> {
        self.engine.file.check_counting("remove keys")?;
        Ok(Writer::of(&self.engine)
            .count_single(Operation::Remove, bits)?
            .done)
    }

    /// Takes each key out once, in their order, and appends for each whether it was there.
    ///
    /// # Errors
    /// As [`remove`](Self::remove). Then the answers appended are those of the keys before the one that
    /// failed, which are removed; of the others none is.
    pub fn remove_batch<K: AsRef<[u8]>>(&self, keys: &[K], removed: &mut Vec<bool>) -> Result<()> {
        let hasher = &self.engine.hasher;
        self.remove_all(
            keys,
            |keys| hasher.hash_two(keys.map(AsRef::as_ref)),
            removed,
        )
    }

    /// As [`remove_batch`](Self::remove_batch), for keys that this store's [`hasher`](Self::hasher) has
    /// hashed, which is not checked.
    ///
    /// # Errors
    /// As [`remove_batch`](Self::remove_batch).
    pub fn remove_hashed(&self, keys: &[HashedKey], removed: &mut Vec<bool>) -> Result<()> {
        self.remove_all(keys, |keys| keys.map(|key| key.bits()), removed)
    }

    fn remove_all<K>(
        &self,
        keys: &[K],
        bits: impl Fn([&K; 2]) -> [u64; 2],
        removed: &mut Vec<bool>,
    ) -> Result<()> {
        self.engine.file.check_counting("remove keys")?;
        let mut counted = Vec::with_capacity(keys.len());
        let outcome = self.in_parts(keys, bits, |keys| {
            Writer::of(&self.engine).count_each(Operation::Remove, keys, &mut counted)
        });
        removed.extend(counted.into_iter().map(|counted| counted.done));
        outcome
    }

    /// Takes the key out once if that is sure to be right: if the write buffer, which keeps keys
    /// exactly, knows that it was inserted more often than removed since the last checkpoint but one.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_recent(&self, key: &[u8]) -> Result<Removal> {
        self.engine.file.check_counting("remove keys")?;
        let hash = self.engine.hasher.hash(key);
        let counted = Writer::of(&self.engine).count_single(Operation::RemoveProven, hash)?;
        Ok(counted.into())
    }

    /// How often the key is there, at most: its inserts less its removes, and a little more for a share
    /// of keys no larger than the false-positive rate, and while whoever writes the key's page has been
    /// stopped or killed in the midst of it. 0 is certain. 15 stands for 15 or more, and for a key that
    /// can't be removed any more. Takes no lock.
    ///
    /// # Errors
    /// [`Error::NotCounting`](crate::Error::NotCounting) in a store of another kind; otherwise as
    /// [`contains`](Self::contains).
    pub fn count_estimate(&self, key: &[u8]) -> Result<u64> {
        self.count_bits(self.engine.hasher.hash(key))
    }

    /// As [`count_estimate`](Self::count_estimate), for callers who bring their own hash.
    ///
    /// # Errors
    /// As [`count_estimate`](Self::count_estimate).
    pub fn count_estimate_hash(&self, hash: u64) -> Result<u64> {
        self.count_bits(self.engine.hasher.mix(hash))
    }

    fn count_bits(&self, bits: u64) -> Result<u64> {
        self.engine.file.check_counting("count keys")?;
        Ok(Reader::of(&self.engine).count_of(bits)?.into())
    }

    /// Inserts the key if it is absent, and answers whether it was. In stores of other kinds that is
    /// what [`insert`](Self::insert) does.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_unique(&self, key: &[u8]) -> Result<bool> {
        let hash = self.engine.hasher.hash(key);
        if !self.engine.file.is_counting() {
            return Ok(Writer::of(&self.engine).claim_single(hash)? == Verdict::New);
        }
        let counted = Writer::of(&self.engine).count_single(Operation::InsertUnique, hash)?;
        Ok(counted.done)
    }

    /// As [`claim_hashed`](Self::claim_hashed), of keys that are absent alone.
    ///
    /// # Errors
    /// As [`claim_hashed`](Self::claim_hashed).
    pub fn claim_unique_hashed(
        &self,
        keys: &[HashedKey],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        if !self.engine.file.is_counting() {
            return self.claim_hashed(keys, verdicts);
        }
        self.in_parts(
            keys,
            |keys| keys.map(|key| key.bits()),
            |keys| Writer::of(&self.engine).count_verdicts(Operation::InsertUnique, keys, verdicts),
        )
    }
}
