//! Removing keys, which counting stores and those of fingerprints can do, and what only counting stores can: estimate how
//! often keys are present.

use crate::api::batch::BatchError;
use crate::api::key::{Key, bits_of};
use crate::api::store::Store;
use crate::engine::read::Reader;
use crate::engine::write::Writer;
use crate::engine::write::count::Counted;
use crate::error::Result;

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
/// until it has been removed twice. For a set, claim keys [if they are absent](crate::ClaimOptions::if_absent).
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
    /// [`Error::WrongKind`](crate::Error::WrongKind) in a store that is neither of
    /// [`Kind::Counting`](crate::Kind::Counting) nor of [`Kind::Fingerprint`](crate::Kind::Fingerprint); otherwise the
    /// same as [`insert`](Self::insert).
    pub fn remove(&self, key: impl Key) -> Result<bool> {
        let bits = bits_of(&self.engine.hasher, &key);
        Writer::of(&self.engine).remove_single(bits)
    }

    /// Removes each key once, in order, and returns whether it was present.
    ///
    /// # Errors
    /// The same as [`remove`](Self::remove), with the answers for the keys before the one that failed. Those keys are
    /// removed, and none of the others is.
    pub fn remove_batch<K: Key>(
        &self,
        keys: &[K],
    ) -> std::result::Result<Vec<bool>, BatchError<bool>> {
        let writer = Writer::of(&self.engine);
        // Before the first key, for a batch without any.
        if let Err(error) = writer.check_removes() {
            return Err(BatchError {
                done: Vec::new(),
                error: Box::new(error),
            });
        }
        self.answers(keys, |part, removed| writer.remove_each(part, removed))
    }

    /// Removes the key once if that is certain to be right: if the write buffer, which keeps keys exactly, shows that
    /// since the last checkpoint but one the key was inserted more often than removed.
    ///
    /// # Errors
    /// The same as [`remove`](Self::remove), but only a store of [`Kind::Counting`](crate::Kind::Counting) can do this.
    pub fn remove_recent(&self, key: impl Key) -> Result<Removal> {
        let bits = bits_of(&self.engine.hasher, &key);
        let counted = Writer::of(&self.engine).remove_proven(bits)?;
        Ok(counted.into())
    }

    /// Returns how often the key is present, at most: its inserts minus its removes. The result is higher for a share
    /// of keys no larger than the false-positive rate, and while the process that writes the key's page is stopped or
    /// was killed partway through. 0 is certain. 15 means 15 or more, or a key that can't be removed any more. Takes no
    /// lock.
    ///
    /// # Errors
    /// [`Error::WrongKind`](crate::Error::WrongKind) in a store of another kind; otherwise the same as
    /// [`contains`](Self::contains).
    pub fn count_estimate(&self, key: impl Key) -> Result<u64> {
        let bits = bits_of(&self.engine.hasher, &key);
        let count = self.read(|engine| Reader::of(engine).count_of(bits))?;
        Ok(count.into())
    }
}
