//! How often the store was wrong, measured: of a share of the keys it is known exactly which were inserted.
//!
//! An insert that is answered "seen" from the pages alone, for a sampled key that is not in the sample, is a
//! false positive for certain, and the key is lost. It is noted in the log, once, and the next checkpoint
//! counts it.

use std::sync::Arc;

use crate::error::Result;
use crate::file::SectionKind;
use crate::log::LogWriter;
use crate::sizing::{Interval, poisson_interval, share_interval};
use crate::store::api::store::Store;
use crate::store::api::store::Verdict;
use crate::store::engine::Engine;
use crate::store::read::Reader;
use crate::store::view::View;
use crate::store::write::guard::Writing;
use crate::sys::lock;

/// What [`Store::measured`] tells.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// One key in so many is sampled.
    pub one_in: u64,
    /// Sampled keys that were inserted.
    pub sampled: u64,
    /// Sampled keys that were to be inserted, never had been, and were answered "seen": false positives,
    /// each key counted once.
    pub false_positives: u64,
    /// Keys that were lost so in all, sampled or not. If no false positive was observed, its
    /// [`high`](Interval::high) end is a bound, and the rest says nothing.
    pub lost: Interval,
    /// The share of keys that were lost, of all that were shown, as a mean over the life of the store: it
    /// was better when it was emptier. To be read as `lost`.
    pub rate: Interval,
}

impl Store {
    /// How often inserts were wrong so far, as measured on a sample of the keys; `None` if the store was
    /// [made](crate::Options::measured) without a sample, or what it knows is damaged. As of the last checkpoint.
    ///
    /// # Errors
    /// A handle that can't go on.
    pub fn measured(&self) -> Result<Option<Measured>> {
        self.engine.handle.check_usable()?;
        let view = self.engine.views.current()?;
        let Some(sample) = view.superblock.section(SectionKind::Sample) else {
            return Ok(None);
        };
        let kept = [&view.sections.sample, &view.sections.lost]
            .into_iter()
            .flatten();
        if kept.into_iter().any(|kept| kept.is_damaged()) {
            return Ok(None);
        }
        let lost = view.superblock.section(SectionKind::Lost);
        let lost = lost.map_or(0, |lost| lost.count);
        let one_in = 1_u64 << sample.rarity;
        Ok(Some(Measured {
            one_in,
            sampled: sample.count,
            false_positives: lost,
            lost: poisson_interval(lost, 1.0 / one_in as f64),
            rate: share_interval(lost, lost.saturating_add(sample.count)),
        }))
    }
}

impl Engine {
    /// Looks into the sample for sampled keys that an insert has answered "seen" for.
    #[inline]
    pub(crate) fn check_seen(&self, hashes: &[u64], verdicts: &[Verdict]) {
        let Some(sampling) = self.sample.sampling else {
            return;
        };
        for (hash, verdict) in hashes.iter().zip(verdicts) {
            if *verdict == Verdict::Seen && sampling.has(*hash) {
                // The answer is given. What can't be noted is not counted.
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
        // Only now is it certain: nobody inserts meanwhile.
        let mut writing = self.lock_writer()?;
        let view = Arc::clone(&writing.view);
        if self.is_lost(&view, hash)? {
            writing.append_noted(|log, handle| log.lost(handle, &[hash]))?;
            lock(&self.sample.noted).insert(hash);
        }
        Ok(())
    }

    /// Whether the pages alone have the key, it was never inserted, and that has not been noted.
    fn is_lost(&self, view: &View, hash: u64) -> Result<bool> {
        let sampled = view.superblock.section(SectionKind::Sample).is_some();
        if !sampled || view.is_buffered(hash) || !Reader::of(self).probe_settled(view, hash)? {
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

impl Writing<'_> {
    /// Appends what is no key to the log, and makes one if there is none.
    pub(crate) fn append_noted(
        &mut self,
        write: impl FnOnce(&mut LogWriter<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        if !self.view.active.has_log() {
            self.start_log()?;
        }
        self.announce()?;
        self.append(write)?;
        self.set_applied();
        Ok(())
    }
}
