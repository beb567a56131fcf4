//! Answering without a lock.

use crate::error::Result;

use super::engine::{Engine, View};

/// Keys that a batch looks up together: enough to keep the memory busy, few enough for the cache.
pub(crate) const BATCH: usize = 512;

impl View {
    /// Fetches what a look-up of the key will touch first.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.active.prefetch(hash);
        if let Some(frozen) = &self.frozen {
            frozen.prefetch(hash);
        }
        for layer in self.layers.iter().rev() {
            layer.prefetch(hash);
        }
    }
}

impl Engine {
    /// Whether the key is in the store.
    #[inline]
    pub(crate) fn probe(&self, view: &View, hash: u64) -> Result<bool> {
        if view.active.contains(hash) {
            return Ok(true);
        }
        self.probe_settled(view, hash)
    }

    /// Whether the key is in the frozen buffer or the pages.
    #[inline]
    pub(crate) fn probe_settled(&self, view: &View, hash: u64) -> Result<bool> {
        if view
            .frozen
            .as_ref()
            .is_some_and(|table| table.contains(hash))
        {
            return Ok(true);
        }
        // The last layer is the largest, so a key that is there is most likely in it.
        for layer in view.layers.iter().rev() {
            let found = layer.contains(hash, &self.window);
            if found.map_err(|source| self.format_error(source))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks up one key.
    pub(crate) fn contains(&self, hash: u64) -> Result<bool> {
        self.check_usable()?;
        self.probe(&self.view.load(), hash)
    }

    /// Looks up many keys, and appends an answer for each.
    pub(crate) fn contains_each(&self, hashes: &[u64], out: &mut Vec<bool>) -> Result<()> {
        self.check_usable()?;
        let view = self.view.load();
        for batch in hashes.chunks(BATCH) {
            for hash in batch {
                view.prefetch(*hash);
            }
            for hash in batch {
                out.push(self.probe(&view, *hash)?);
            }
        }
        Ok(())
    }
}
