//! The measured rate of false positives.

use crate::engine::view::View;
use crate::file::SectionKind;
use crate::generation::sampling::Sampling;
use crate::hash::HashedKey;
use crate::sizing::{Interval, poisson_interval, share_interval};

/// The result of [`Stats::measured`](crate::Stats::measured).
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
    sampling: Sampling,
}

impl Measured {
    /// Returns whether this key, which the store's [`hasher`](crate::Store::hasher) has hashed, is of the share that the
    /// sample keeps. Only such a key, when it is inserted and answered "seen", can add to these figures.
    #[must_use]
    pub fn is_sampled(&self, key: HashedKey) -> bool {
        self.sampling.has(key.bits())
    }
}

/// Returns how often inserts were wrong so far; `None` if the store has no sample, or a damaged one.
pub(crate) fn measured(view: &View, sampling: Option<Sampling>) -> Option<Measured> {
    let sample = view.superblock.section(SectionKind::Sample)?;
    let kept = [&view.sections.sample, &view.sections.lost];
    if kept.into_iter().flatten().any(|kept| kept.is_damaged()) {
        return None;
    }
    let lost = view.superblock.section(SectionKind::Lost);
    let lost = lost.map_or(0, |lost| lost.count);
    let sampled = view.superblock.sections_of(SectionKind::Sample);
    let sampled = sampled.fold(0, |sum: u64, part| sum.saturating_add(part.count));
    let one_in = 1_u64 << sample.rarity;
    Some(Measured {
        one_in,
        sampled,
        false_positives: lost,
        lost: poisson_interval(lost, 1.0 / one_in as f64),
        rate: share_interval(lost, lost.saturating_add(sampled)),
        sampling: sampling?,
    })
}
