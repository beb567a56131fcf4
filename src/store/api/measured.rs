//! How often the store was wrong.

use crate::error::Result;
use crate::file::SectionKind;
use crate::sizing::{Interval, poisson_interval, share_interval};
use crate::store::api::store::Store;

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
