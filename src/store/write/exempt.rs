//! Telling the store that keys it takes for seen never were.

use std::sync::Arc;

use crate::error::Result;
use crate::hash::HashedKey;
use crate::store::api::store::Store;
use crate::store::checkpoint::run::Checkpointer;
use crate::store::engine::Engine;
use crate::store::write::guard::Writing;

/// Exemptions that are read at a time.
const PIECE: usize = 4096;

/// What [`Store::exempt`] did, in keys, each counted once.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExemptReport {
    /// Exempt from now on.
    pub exempted: u64,
    /// Exempt already.
    pub already: u64,
    /// In a write buffer, so that they were inserted for certain: left as they are.
    pub present: u64,
}

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
        self.engine
            .exempt(keys.iter().map(|key| key.bits()).collect())
    }

    /// As [`exempt`](Self::exempt), for callers who bring their own hashes.
    ///
    /// # Errors
    /// As [`exempt`](Self::exempt).
    pub fn exempt_hash_batch(&self, hashes: &[u64]) -> Result<ExemptReport> {
        let hasher = &self.engine.hasher;
        let hashes = hashes.iter().map(|hash| hasher.mix(*hash));
        self.engine.exempt(hashes.collect())
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
        self.engine.for_each_exemption(each)
    }
}

impl Engine {
    /// Exempts keys, and waits until that is durable and known to all.
    fn exempt(&self, mut hashes: Vec<u64>) -> Result<ExemptReport> {
        self.handle.check_writable()?;
        hashes.sort_unstable();
        hashes.dedup();
        let mut writing = self.lock_writer()?;
        let report = writing.pick_out(&mut hashes)?;
        if hashes.is_empty() {
            return Ok(report);
        }
        writing.append_noted(|log, handle| log.exempt(handle, &hashes))?;
        writing.turn(false)?;
        drop(writing);
        Checkpointer::of(self).settle_all(self.options.timeout)?;
        Ok(report)
    }

    fn for_each_exemption(&self, mut each: impl FnMut(u64)) -> Result<()> {
        self.handle.check_usable()?;
        let view = Arc::clone(&*self.views.current()?);
        let Some(exempt) = &view.sections.exempt else {
            return Ok(());
        };
        let mut from = Some(0);
        let mut piece = Vec::new();
        while let Some(first) = from {
            piece.clear();
            exempt.query(
                |hashes| hashes.load(first..=u64::MAX, PIECE, &mut piece),
                (),
            )?;
            piece.iter().copied().for_each(&mut each);
            from = piece.last().and_then(|last| last.checked_add(1));
        }
        Ok(())
    }
}

impl Writing<'_> {
    /// Keeps those of the hashes that are to be exempted.
    fn pick_out(&self, hashes: &mut Vec<u64>) -> Result<ExemptReport> {
        let mut report = ExemptReport::default();
        let mut failed = None;
        let view = &self.view;
        hashes.retain(|hash| {
            if self.is_buffered(*hash) {
                report.present += 1;
                return false;
            }
            match view
                .sections
                .exempt
                .as_ref()
                .map(|exempt| exempt.contains(*hash))
            {
                Some(Ok(true)) => {
                    report.already += 1;
                    return false;
                }
                Some(Err(error)) => failed = Some(error),
                _ => {}
            }
            report.exempted += 1;
            true
        });
        match failed {
            None => Ok(report),
            Some(error) => Err(error),
        }
    }

    /// Whether the key is in a buffer, where it is for certain.
    fn is_buffered(&self, hash: u64) -> bool {
        let view = &self.view;
        if self.engine.file.is_counting() {
            let frozen = view.frozen.as_ref();
            let frozen = frozen.map_or(0, |frozen| frozen.buffer.net(hash));
            return frozen + view.active.buffer.net(hash) > 0;
        }
        view.is_buffered(hash)
    }
}
