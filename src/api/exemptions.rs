//! Exempts keys that the store wrongly answers "seen" for.

use crate::api::key::{Key, bits_of};
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
    pub fn exempt<K: Key>(&self, keys: &[K]) -> Result<ExemptReport> {
        let hasher = &self.engine.hasher;
        let bits = keys.iter().map(|key| bits_of(hasher, key)).collect();
        Writer::of(&self.engine).exempt(bits)
    }

    /// Returns the exempt keys, in ascending order of their bits. The keys' bytes are not kept. Concurrent changes may or
    /// may not be included. [`Stats::exempt`](crate::Stats::exempt) says how many there are.
    pub fn exemptions(&self) -> Exemptions<'_> {
        Exemptions {
            store: self,
            from: Some(0),
            piece: Vec::new().into_iter(),
        }
    }
}

/// The exempt keys of a store; see [`Store::exemptions`].
///
/// An item is an error for a damaged section, or one that can't be read, and then the last one.
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is asked"]
pub struct Exemptions<'s> {
    store: &'s Store,
    /// The least bits that have not been read; `None` at the end.
    from: Option<u64>,
    piece: std::vec::IntoIter<u64>,
}

impl Iterator for Exemptions<'_> {
    type Item = Result<HashedKey>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.piece.len() == 0 {
            let from = self.from?;
            let read = |engine: &crate::engine::Engine| Writer::of(engine).exempt_from(from);
            match self.store.read(read) {
                Ok(piece) => {
                    self.from = piece.last().and_then(|last| last.checked_add(1));
                    self.piece = piece.into_iter();
                }
                Err(error) => {
                    self.from = None;
                    return Some(Err(error));
                }
            }
        }
        self.piece.next().map(HashedKey::from_bits).map(Ok)
    }
}

impl std::iter::FusedIterator for Exemptions<'_> {}
