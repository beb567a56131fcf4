//! Measures how often the store was wrong. The sample knows exactly which keys of a certain share were inserted.
//!
//! If the pages alone answer "seen" to an insert of a sampled key that is not in the sample, that is certainly a false
//! positive, and the key is lost. The log notes it once, and the next checkpoint counts it.

use std::sync::Arc;

use crate::engine::view::View;
use crate::engine::write::Writer;
use crate::engine::write::verdict::Verdict;
use crate::error::Result;
use crate::file::SectionKind;
use crate::sys::lock;

impl Writer<'_> {
    /// Checks the sampled keys among those for which an insert answered "seen".
    #[inline]
    pub(crate) fn check_seen(&self, hashes: &[u64], verdicts: &[Verdict]) {
        let Some(sampling) = self.sample.sampling else {
            return;
        };
        for (hash, verdict) in hashes.iter().zip(verdicts) {
            if *verdict == Verdict::Seen && sampling.has(*hash) {
                // The answer stands. A false positive that can't be noted is not counted.
                let _ = self.check_sampled(*hash);
            }
        }
    }

    #[cold]
    fn check_sampled(&self, hash: u64) -> Result<()> {
        let view = Arc::clone(&*self.views.current()?);
        if !self.is_lost(&view, hash)? {
            return Ok(());
        }
        // Only now is it certain: no other handle inserts while this one holds the lock.
        let mut guard = self.lock()?;
        let view = Arc::clone(&guard.view);
        if self.is_lost(&view, hash)? {
            guard.append_noted(|log, handle| log.lost(handle, &[hash]))?;
            lock(&self.sample.noted).insert(hash);
        }
        Ok(())
    }

    /// Returns whether only the pages hold the key although it was never inserted, and no note of that exists.
    fn is_lost(&self, view: &View, hash: u64) -> Result<bool> {
        let sampled = view.superblock.section(SectionKind::Sample).is_some();
        if !sampled || view.proves_insert(hash) || !self.reader().is_below(hash)? {
            return Ok(false);
        }
        for kept in [&view.sections.sample, &view.sections.lost]
            .into_iter()
            .flatten()
        {
            if kept.contains(hash)? {
                return Ok(false);
            }
        }
        Ok(!lock(&self.sample.noted).contains(&hash))
    }
}
