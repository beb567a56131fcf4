//! Looks keys up in the segments of all runs.
//!
//! A probe reads whatever its directories lead to, and then asks whether the room may have been written again since. If so,
//! it is stale, and the look-up goes on in a newer view.

use crate::error::Result;
use crate::file::FormatError;
use crate::fingerprint::runs::run_set::{NoAnswer, RunSet};
use crate::fingerprint::segment::fault::SegmentFault;
use crate::page_io::probe::{
    BatchProbe, NeedsPointLookup, OnDamaged, PageLookup, Probe, StaleDirectory,
};
use crate::prefetch::BATCH;
use crate::prefetch::selection::SelectionVector;

/// A look-up whose way leads over damage. Segments are written where nothing names them, so looking again is in vain.
struct Damaged(SegmentFault);

impl PageLookup for Damaged {
    type Answer = bool;

    fn look(&self) -> Result<bool, FormatError> {
        Err(self.0.into())
    }

    fn look_torn(&self) -> bool {
        false
    }

    fn assume(&self, seen: bool) -> bool {
        seen
    }
}

/// Returns the directory of segments if what was read up to now may be of later ones.
#[inline]
pub(crate) fn stale(segments: &RunSet) -> Option<StaleDirectory> {
    let version = segments.version();
    segments.is_stale().then_some(StaleDirectory { version })
}

/// Probes the segments for a key.
pub(crate) fn probe(
    segments: &RunSet,
    (hash, since): (u64, u64),
    on_damaged: OnDamaged<'_>,
) -> Result<Probe> {
    match segments.contains(hash, since) {
        Ok(found) => Ok(Probe::of(found)),
        Err(NoAnswer::Stale) => Ok(Probe::Stale(StaleDirectory {
            version: segments.version(),
        })),
        Err(NoAnswer::Damaged(fault)) => {
            on_damaged(&Damaged(fault), fault.page(), fault.into()).map(Probe::of)
        }
    }
}

/// Looks for keys in segments, at most [`BATCH`] of them. Sets `found` for each that is present, and drops it from
/// `rest`.
///
/// # Errors
/// After an error `found` is meaningless.
pub(crate) fn probe_segments(
    segments: &RunSet,
    context: &BatchProbe<'_>,
    hashes: &[u64],
    rest: &mut SelectionVector,
    found: &mut [bool],
) -> Result<(), NeedsPointLookup> {
    let (mut selected, mut answers) = ([0; BATCH], [None; BATCH]);
    let wanted = rest.select(hashes, &mut selected);
    let answers = &mut answers[..wanted.len()];
    segments.contains_all(wanted, (context.order, context.since), answers);
    if answers.contains(&None) {
        return Err(NeedsPointLookup);
    }
    if context.exempt.is_some() {
        for (hash, answer) in wanted.iter().zip(answers.iter_mut()) {
            *answer = Some(context.is_key(*hash, *answer == Some(true))?);
        }
    }
    if segments.is_stale() {
        return Err(NeedsPointLookup);
    }
    rest.settle(found, |turn| answers[turn] == Some(true));
    Ok(())
}
