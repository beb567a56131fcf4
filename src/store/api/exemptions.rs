//! Exempting keys that the store wrongly answers "seen" for.

use crate::error::Result;
use crate::hash::HashedKey;
use crate::store::api::store::Store;
use crate::store::write::Writer;
use crate::store::write::exempt::ExemptReport;

impl Store {
    /// Makes exceptions of keys that the store answers "seen" for and that were never inserted: from now
    /// on they are not there, until they are inserted for real. They are kept exactly, 8 bytes each.
    ///
    /// When it returns, that is durable and holds for every handle; in a transactional store too, without
    /// a commit. It takes a [`checkpoint`](Self::checkpoint), which writes all exemptions anew, so many
    /// keys are best given together.
    ///
    /// That a key was never inserted is not checked, for a filter can't tell: one that was, and is in the
    /// pages by now, is forgotten. A key that the store does not answer "seen" for may be exempted as well.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint). After an error some of the keys may be exempt all the same, now
    /// or at a later checkpoint.
    pub fn exempt<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<ExemptReport> {
        let hasher = &self.engine.hasher;
        let mut hashed = Vec::with_capacity(keys.len());
        hasher.keys(keys.iter().map(AsRef::as_ref), &mut hashed);
        self.exempt_hashed(&hashed)
    }

    /// As [`exempt`](Self::exempt), for keys that this store's [`hasher`](Self::hasher) has hashed, which is
    /// not checked.
    ///
    /// # Errors
    /// As [`exempt`](Self::exempt).
    pub fn exempt_hashed(&self, keys: &[HashedKey]) -> Result<ExemptReport> {
        Writer::of(&self.engine).exempt(keys.iter().map(|key| key.bits()).collect())
    }

    /// As [`exempt`](Self::exempt), for callers who bring their own hashes.
    ///
    /// # Errors
    /// As [`exempt`](Self::exempt).
    pub fn exempt_hash_batch(&self, hashes: &[u64]) -> Result<ExemptReport> {
        let hasher = &self.engine.hasher;
        let hashes = hashes.iter().map(|hash| hasher.mix(*hash));
        Writer::of(&self.engine).exempt(hashes.collect())
    }

    /// How many keys are exempt, as of the last checkpoint: those among them that were inserted since are
    /// counted still.
    ///
    /// # Errors
    /// A handle that can't go on.
    pub fn exemptions(&self) -> Result<u64> {
        self.engine.handle.check_usable()?;
        let view = self.engine.views.current()?;
        Ok(view
            .sections
            .exempt
            .as_ref()
            .map_or(0, |exempt| exempt.count()))
    }

    /// Passes the hashes of the keys that are exempt to `each`, in rising order, as
    /// [`HashedKey::bits`](crate::hash::HashedKey::bits) tells them: the keys themselves are not kept. What
    /// changes meanwhile may be among them or not.
    ///
    /// # Errors
    /// A damaged section, or one that can't be read.
    pub fn for_each_exemption(&self, each: impl FnMut(u64)) -> Result<()> {
        Writer::of(&self.engine).for_each_exemption(each)
    }
}
