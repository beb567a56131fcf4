//! The measured rate of false positives.

use crate::api::store::Store;
use crate::engine::Engine;
use crate::error::Result;
use crate::file::SectionKind;
use crate::hash::HashedKey;
use crate::sizing::{Interval, poisson_interval, share_interval};

/// The result of [`Store::measured`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// One key in this many is sampled.
    pub one_in: u64,
    /// Sampled keys that were inserted.
    pub sampled: u64,
    /// Sampled keys that were never inserted, and whose insert was answered "seen": false positives. Each key is
    /// counted once.
    pub false_positives: u64,
    /// Keys lost this way in total, sampled or not. If no false positive was observed, only the
    /// [`high`](Interval::high) end is meaningful, as a bound.
    pub lost: Interval,
    /// The share of all keys offered that were lost, as a mean over the life of the store: it was lower when the store
    /// was emptier. Read it like `lost`.
    pub rate: Interval,
}

impl Store {
    /// Returns how often inserts were wrong so far, measured on a sample of the keys as of the last checkpoint. Returns
    /// `None` if the store was [created](crate::Options::measured) without a sample, or if the sample is damaged.
    ///
    /// # Errors
    /// The handle can't go on.
    pub fn measured(&self) -> Result<Option<Measured>> {
        self.read(Self::measured_in)
    }

    fn measured_in(engine: &Engine) -> Result<Option<Measured>> {
        engine.handle.check_usable()?;
        let view = engine.views.current()?;
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

    /// Returns whether this key, which the store's [`hasher`](Store::hasher) has hashed, is of the share that the sample
    /// keeps. Only such a key, when it is inserted and answered "seen", can add to what [`measured`](Self::measured)
    /// reports.
    pub fn is_sampled(&self, key: HashedKey) -> bool {
        let sampling = self.engine.sample.sampling;
        sampling.is_some_and(|sampling| sampling.has(key.bits()))
    }
}
