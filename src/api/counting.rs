//! Removing keys, which counting stores and those of fingerprints can do, and what only counting stores can: estimate how
//! often keys are present.

use crate::api::store::Store;
use crate::engine::read::Reader;
use crate::engine::write::Writer;
use crate::engine::write::count::{Counted, Operation};
use crate::engine::write::verdict::Verdict;
use crate::error::{REMOVE_KEYS, Result};
use crate::hash::HashedKey;

/// The result of [`Store::remove_recent`] for a key.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Removal {
    /// The key was removed once.
    Removed,
    /// The key is not present. This is certain.
    Absent,
    /// The key tests positive, but nothing proves that it was inserted. Nothing has changed.
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

/// Counting stores ([`Kind::Counting`](crate::Kind::Counting)) are multisets: a key that was inserted twice is present
/// until it has been removed twice. For a set, insert with [`insert_unique`](Self::insert_unique).
///
/// A key's counters saturate at 15, and a saturated counter never changes again. A key whose counters are all saturated
/// can't be removed any more, whether its own inserts or those of other keys saturated them.
impl Store {
    /// Removes the key once and returns whether it was present. If it was absent, nothing has changed.
    ///
    /// When it returns, the removal outlives the process, and after the next [`commit`](Self::commit) it also outlives
    /// a power loss.
    ///
    /// **Remove only keys that were inserted.** A key that was never inserted tests positive at the false-positive
    /// rate. Removing such a key decrements counters that belong to other keys, which may then be absent although they
    /// were never removed. This method can't detect that. [`remove_recent`](Self::remove_recent) can, for keys that
    /// were inserted recently.
    ///
    /// A store of [`Kind::Fingerprint`](crate::Kind::Fingerprint) is a set: one removal is enough, however often the key
    /// was inserted. A key shares its fingerprint with another one at the false-positive rate, and both go together.
    ///
    /// # Errors
    /// [`Error::NotCounting`](crate::Error::NotCounting) in a store that is neither of
    /// [`Kind::Counting`](crate::Kind::Counting) nor of [`Kind::Fingerprint`](crate::Kind::Fingerprint); otherwise the
    /// same as [`insert`](Self::insert).
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.remove_bits(self.engine.hasher.hash(key))
    }

    /// Like [`remove`](Self::remove), for callers that bring their own hash.
    ///
    /// # Errors
    /// The same as [`remove`](Self::remove).
    pub fn remove_hash(&self, hash: u64) -> Result<bool> {
        self.remove_bits(self.engine.hasher.mix(hash))
    }

    fn remove_bits(&self, bits: u64) -> Result<bool> {
        let writer = Writer::of(&self.engine);
        if self.engine.file.header.kind.is_set() {
            return writer.remove_single(bits);
        }
        self.engine.file.check_counting(REMOVE_KEYS)?;
        Ok(writer.count_single(Operation::Remove, bits)?.done)
    }

    /// Removes each key once, in order, and appends to `removed` whether it was present.
    ///
    /// # Errors
    /// The same as [`remove`](Self::remove). The answers appended are then those of the keys before the one that
    /// failed. Those keys are removed, and none of the others is.
    pub fn remove_batch<K: AsRef<[u8]>>(&self, keys: &[K], removed: &mut Vec<bool>) -> Result<()> {
        let hasher = &self.engine.hasher;
        self.remove_all(
            keys,
            |keys| hasher.hash_two(keys.map(AsRef::as_ref)),
            removed,
        )
    }

    /// Like [`remove_batch`](Self::remove_batch), for keys that this store's [`hasher`](Self::hasher) has hashed. That
    /// is not checked.
    ///
    /// # Errors
    /// The same as [`remove_batch`](Self::remove_batch).
    pub fn remove_hashed(&self, keys: &[HashedKey], removed: &mut Vec<bool>) -> Result<()> {
        self.remove_all(keys, |keys| keys.map(|key| key.bits()), removed)
    }

    fn remove_all<K>(
        &self,
        keys: &[K],
        bits: impl Fn([&K; 2]) -> [u64; 2],
        removed: &mut Vec<bool>,
    ) -> Result<()> {
        if self.engine.file.header.kind.is_set() {
            return self.in_parts(keys, bits, |keys| {
                Writer::of(&self.engine).remove_each(keys, removed)
            });
        }
        self.engine.file.check_counting(REMOVE_KEYS)?;
        let mut counted = Vec::with_capacity(keys.len());
        let outcome = self.in_parts(keys, bits, |keys| {
            Writer::of(&self.engine).count_each(Operation::Remove, keys, &mut counted)
        });
        removed.extend(counted.into_iter().map(|counted| counted.done));
        outcome
    }

    /// Removes the key once if that is certain to be right: if the write buffer, which keeps keys exactly, shows that
    /// since the last checkpoint but one the key was inserted more often than removed.
    ///
    /// # Errors
    /// The same as [`remove`](Self::remove), but only a store of [`Kind::Counting`](crate::Kind::Counting) can do this.
    pub fn remove_recent(&self, key: &[u8]) -> Result<Removal> {
        let action = match self.engine.file.header.kind.is_set() {
            // It removes keys, but not this way.
            true => "prove that a key was inserted",
            false => REMOVE_KEYS,
        };
        self.engine.file.check_counting(action)?;
        let hash = self.engine.hasher.hash(key);
        let counted = Writer::of(&self.engine).count_single(Operation::RemoveProven, hash)?;
        Ok(counted.into())
    }

    /// Returns how often the key is present, at most: its inserts minus its removes. The result is higher for a share
    /// of keys no larger than the false-positive rate, and while the process that writes the key's page is stopped or
    /// was killed partway through. 0 is certain. 15 means 15 or more, or a key that can't be removed any more. Takes no
    /// lock.
    ///
    /// # Errors
    /// [`Error::NotCounting`](crate::Error::NotCounting) in a store of another kind; otherwise the same as
    /// [`contains`](Self::contains).
    pub fn count_estimate(&self, key: &[u8]) -> Result<u64> {
        self.count_bits(self.engine.hasher.hash(key))
    }

    /// Like [`count_estimate`](Self::count_estimate), for callers that bring their own hash.
    ///
    /// # Errors
    /// The same as [`count_estimate`](Self::count_estimate).
    pub fn count_estimate_hash(&self, hash: u64) -> Result<u64> {
        self.count_bits(self.engine.hasher.mix(hash))
    }

    fn count_bits(&self, bits: u64) -> Result<u64> {
        self.engine.file.check_counting("count keys")?;
        let count = self.read(|engine| Reader::of(engine).count_of(bits))?;
        Ok(count.into())
    }

    /// Inserts the key if it is absent, and returns whether it was. In stores of other kinds this is the same as
    /// [`insert`](Self::insert).
    ///
    /// # Errors
    /// The same as [`insert`](Self::insert).
    pub fn insert_unique(&self, key: &[u8]) -> Result<bool> {
        let hash = self.engine.hasher.hash(key);
        if !self.engine.file.header.kind.counts() {
            return Ok(Writer::of(&self.engine).claim_single(hash)? == Verdict::New);
        }
        let counted = Writer::of(&self.engine).count_single(Operation::InsertUnique, hash)?;
        Ok(counted.done)
    }

    /// Like [`claim_hashed`](Self::claim_hashed), but inserts only keys that are absent.
    ///
    /// # Errors
    /// The same as [`claim_hashed`](Self::claim_hashed).
    pub fn claim_unique_hashed(
        &self,
        keys: &[HashedKey],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        if !self.engine.file.header.kind.counts() {
            return self.claim_hashed(keys, verdicts);
        }
        self.in_parts(
            keys,
            |keys| keys.map(|key| key.bits()),
            |keys| Writer::of(&self.engine).count_verdicts(Operation::InsertUnique, keys, verdicts),
        )
    }
}
