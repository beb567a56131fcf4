//! Exempts keys that the store wrongly answers "seen" for.

use crate::api::store::Store;
use crate::engine::write::Writer;
use crate::engine::write::exempt::ExemptReport;
use crate::error::Result;
use crate::hash::HashedKey;

impl Store {
    /// Exempts keys that were never inserted but that the store answers "seen" for. From now on they are absent, until
    /// they are inserted for real. The store keeps exemptions exactly, at 8 bytes each.
    ///
    /// When it returns, the exemptions are durable and hold for every handle, without a commit even in a transactional
    /// store. The call takes a [`checkpoint`](Self::checkpoint), which rewrites all exemptions, so exempt many keys in
    /// one call.
    ///
    /// The call does not check that a key was never inserted, because a filter can't tell: a key that was inserted, and
    /// is in the pages by now, is forgotten. A key that the store does not answer "seen" for may also be exempted.
    ///
    /// # Errors
    /// The same as [`checkpoint`](Self::checkpoint). After an error some of the keys may be exempt nevertheless, now or
    /// after a later checkpoint.
    pub fn exempt<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<ExemptReport> {
        let hasher = &self.engine.hasher;
        let mut hashed = Vec::with_capacity(keys.len());
        hasher.keys(keys.iter().map(AsRef::as_ref), &mut hashed);
        self.exempt_hashed(&hashed)
    }

    /// Like [`exempt`](Self::exempt), for keys that this store's [`hasher`](Self::hasher) has hashed. That is not
    /// checked.
    ///
    /// # Errors
    /// The same as [`exempt`](Self::exempt).
    pub fn exempt_hashed(&self, keys: &[HashedKey]) -> Result<ExemptReport> {
        Writer::of(&self.engine).exempt(keys.iter().map(|key| key.bits()).collect())
    }

    /// Like [`exempt`](Self::exempt), for callers that bring their own hashes.
    ///
    /// # Errors
    /// The same as [`exempt`](Self::exempt).
    pub fn exempt_hash_batch(&self, hashes: &[u64]) -> Result<ExemptReport> {
        let hasher = &self.engine.hasher;
        let hashes = hashes.iter().map(|hash| hasher.mix(*hash));
        Writer::of(&self.engine).exempt(hashes.collect())
    }

    /// Returns how many keys were exempt at the last checkpoint. Keys inserted since then are still counted.
    ///
    /// # Errors
    /// The handle can't go on.
    pub fn exemptions(&self) -> Result<u64> {
        self.read(|engine| {
            engine.handle.check_usable()?;
            let view = engine.views.current()?;
            let exempt = view.sections.exempt.as_ref();
            Ok(exempt.map_or(0, |exempt| exempt.count()))
        })
    }

    /// Passes the hash of each exempt key to `each`, in ascending order, as
    /// [`HashedKey::bits`](crate::hash::HashedKey::bits) returns it. The keys themselves are not kept. Concurrent
    /// changes may or may not be included.
    ///
    /// # Errors
    /// A damaged section, or one that can't be read.
    pub fn for_each_exemption(&self, each: impl FnMut(u64)) -> Result<()> {
        self.read_once(|engine| Writer::of(engine).for_each_exemption(each))
    }
}
