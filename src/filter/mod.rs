//! The filter of a store: the one place where its kind is asked for.
//!
//! What a kind does lies in its own room (`bloom`, `fingerprint`). The engine above calls a filter and doesn't know which one
//! it has.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod count;
pub(crate) mod design;
pub(crate) mod design_like;
pub(crate) mod differences;
pub(crate) mod merge;
pub(crate) mod replay;

use std::path::Path;
use std::sync::Arc;

use crate::bloom::layer_pages::{LayerPages, with_keys};
use crate::bloom::probe as bloom;
use crate::bloom::readahead::Readahead as LayerReadahead;
use crate::error::{Error, Result};
use crate::file::{Header, Superblock};
use crate::fingerprint::map_segments::map_segments;
use crate::fingerprint::negative_filter_update::HeldFilter;
use crate::fingerprint::readahead::SegmentReadahead;
use crate::fingerprint::runs::run_set::RunSet;
use crate::fingerprint::{probe as fingerprint, readahead as segment_readahead};
use crate::page::write_window::WriteWindow;
use crate::page::{Binding, Kind};
use crate::page_io::map_error::MapError;
use crate::page_io::probe::{BatchProbe, NeedsPointLookup, OnDamaged, Probe, StaleDirectory};
use crate::prefetch::BehindWalk;
use crate::prefetch::lookup_order::LookupOrder;
use crate::prefetch::selection::SelectionVector;
use crate::sys::storage::StorageFile;

pub(crate) use crate::fingerprint::pending_filter::PendingFilter;
pub(crate) use crate::fingerprint::runs::steps_of_keys::StepsOfKeys;

/// Returns whether the pages are those of segments: sorted lists of keys, which a checkpoint never changes, but replaces by
/// others. So their keys can be listed, their room may be taken by something else while they are read, and the file of a
/// closing store may become shorter.
pub(crate) fn has_segments(header: &Header) -> bool {
    match header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => false,
        Kind::Fingerprint => true,
    }
}

/// The pages of a store, mapped as a superblock names them.
#[derive(Debug, Clone)]
pub(crate) enum Filter {
    /// Layers of bits or of counters. A store that does not grow has one.
    Bloom(Vec<Arc<LayerPages>>),
    Fingerprint(Arc<RunSet>),
    /// The maps were given up, for good.
    Closed,
}

impl Filter {
    /// Maps what a superblock names, and reuses what `held` has mapped. Segments get their negative filter from `pending`, if
    /// it has theirs.
    pub(crate) fn map(
        file: &dyn StorageFile,
        path: &Path,
        (superblock, header): (&Superblock, &Header),
        held: Option<&Self>,
        pending: &PendingFilter,
    ) -> Result<Self, MapError> {
        let binding = header.binding();
        let Some(space) = header.space() else {
            let held = held.map_or(&[][..], Self::layers);
            let layers = bloom::map_layers(file, path, superblock, binding, held)?;
            // The keys of a layer that isn't probed would be lost (I1).
            assert_eq!(layers.len(), superblock.layers.len());
            return Ok(Self::Bloom(layers));
        };
        let held = match held {
            Some(Self::Fingerprint(segments)) => Some(segments),
            _ => None,
        };
        let bound = (space, binding);
        map_segments(file, path, superblock, bound, held, pending).map(Self::Fingerprint)
    }

    /// Refuses a filter whose maps were given up.
    #[inline]
    pub(crate) fn expect_open(&self) -> Result<()> {
        match self {
            Self::Closed => Err(Error::Closed),
            Self::Bloom(_) | Self::Fingerprint(_) => Ok(()),
        }
    }

    /// Returns the layers of bits or counters.
    pub(crate) fn layers(&self) -> &[Arc<LayerPages>] {
        match self {
            Self::Bloom(layers) => layers,
            Self::Fingerprint(_) | Self::Closed => &[],
        }
    }

    /// Returns the pages of a filter that counts.
    #[inline]
    pub(crate) fn counters(&self) -> Result<&LayerPages> {
        match self.layers() {
            [layer] => Ok(layer),
            _ => Err(Error::Closed),
        }
    }

    #[cfg(test)]
    pub(crate) fn segments(&self) -> Option<&Arc<RunSet>> {
        match self {
            Self::Fingerprint(segments) => Some(segments),
            Self::Bloom(_) | Self::Closed => None,
        }
    }

    /// Counts keys by their steps, from at most so many pages; none of a store without ages. Returns `None` if the pages were
    /// overtaken.
    pub(crate) fn steps_of_keys(&self, binding: Binding, most: u64) -> Option<StepsOfKeys> {
        match self {
            Self::Fingerprint(segments) => segments.steps_of_keys(binding, most),
            Self::Bloom(_) | Self::Closed => Some(StepsOfKeys::default()),
        }
    }

    /// Returns whether a transaction of this filter may remove keys, and may be given up with its removes.
    #[inline]
    pub(crate) fn has_removes(&self) -> bool {
        !matches!(self, Self::Bloom(_))
    }

    /// Prefetches what a look-up of one key touches, so that it waits for everything at once.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        match self {
            Self::Bloom(layers) => bloom::prefetch(layers, hash),
            Self::Fingerprint(segments) => segments.prefetch(hash),
            Self::Closed => {}
        }
    }

    /// Probes the pages for a key that came in the step `since` or later, without regard to exemptions. Stores that don't
    /// forget know of no steps.
    #[inline]
    pub(crate) fn probe(
        &self,
        (hash, since): (u64, u64),
        window: WriteWindow<'_>,
        on_damaged: OnDamaged<'_>,
    ) -> Result<Probe> {
        match self {
            Self::Bloom(layers) => bloom::contains(layers, hash, window, on_damaged).map(Probe::of),
            Self::Fingerprint(segments) => fingerprint::probe(segments, (hash, since), on_damaged),
            Self::Closed => Err(Error::Closed),
        }
    }

    /// Looks for keys in the pages, at most [`BATCH`](crate::prefetch::BATCH) of them. Sets `found` for each that is present,
    /// and drops it from `rest`.
    ///
    /// # Errors
    /// After an error `found` is meaningless.
    pub(crate) fn probe_many(
        &self,
        context: &BatchProbe<'_>,
        hashes: &[u64],
        rest: &mut SelectionVector,
        found: &mut [bool],
    ) -> Result<(), NeedsPointLookup> {
        debug_assert!(hashes.len() <= found.len(), "an answer for each key");
        match self {
            Self::Bloom(layers) => bloom::probe_layers(layers, context, hashes, rest, found),
            Self::Fingerprint(segments) => {
                fingerprint::probe_segments(segments, context, hashes, rest, found)
            }
            Self::Closed => Err(NeedsPointLookup),
        }
    }

    /// Returns the directory that was read up to now if checkpoints may have written over what it leads to.
    #[inline]
    pub(crate) fn stale(&self) -> Option<StaleDirectory> {
        match self {
            Self::Fingerprint(segments) => fingerprint::stale(segments),
            // Pages of layers are written in place, and only gain keys.
            Self::Bloom(_) | Self::Closed => None,
        }
    }

    /// Returns whether this filter can answer what was stale.
    pub(crate) fn is_newer_than(&self, stale: StaleDirectory) -> bool {
        match self {
            Self::Fingerprint(segments) => segments.version() > stale.version,
            Self::Bloom(_) | Self::Closed => false,
        }
    }

    /// Returns how many pages a sweep reads.
    pub(crate) fn pages(&self) -> u64 {
        match self {
            Self::Bloom(layers) => with_keys(layers).map(LayerPages::pages).sum(),
            Self::Fingerprint(segments) => segments.pages(),
            Self::Closed => 0,
        }
    }

    /// Returns whether a walk over the keys passes every page in order, or nearly so.
    pub(crate) fn is_sweep(&self, order: &LookupOrder<'_>) -> bool {
        match self {
            Self::Bloom(layers) => crate::bloom::readahead::is_sweep(order, layers),
            Self::Fingerprint(segments) => segment_readahead::is_sweep(order, segments),
            Self::Closed => false,
        }
    }

    /// Returns whether a walk over the keys brings several to each page.
    pub(crate) fn shares_pages(&self, order: &LookupOrder<'_>) -> bool {
        match self {
            Self::Fingerprint(segments) => segment_readahead::shares_pages(order, segments),
            Self::Bloom(_) | Self::Closed => false,
        }
    }

    /// Begins to ask for the pages of `keys` keys ahead of their look-ups.
    pub(crate) fn readahead<'a>(
        &'a self,
        file: &'a dyn StorageFile,
        keys: usize,
        behind: BehindWalk,
    ) -> Readahead<'a> {
        Readahead::new(self, file, keys, behind)
    }

    /// Returns the negative filter of the pages as this handle has it.
    pub(crate) fn held_filter(&self) -> HeldFilter {
        match self {
            Self::Fingerprint(segments) => HeldFilter::of(segments),
            Self::Bloom(_) | Self::Closed => HeldFilter::default(),
        }
    }
}

/// The pages that one walk over the keys of a part reads.
pub(crate) enum Readahead<'a> {
    Bloom(LayerReadahead<'a>),
    Fingerprint(SegmentReadahead<'a>),
    Nothing,
}

impl<'a> Readahead<'a> {
    pub(super) fn new(
        filter: &'a Filter,
        file: &'a dyn StorageFile,
        keys: usize,
        behind: BehindWalk,
    ) -> Self {
        match filter {
            Filter::Bloom(layers) => Self::Bloom(LayerReadahead::new(layers, file, keys, behind)),
            Filter::Fingerprint(segments) => {
                Self::Fingerprint(SegmentReadahead::new(segments, file, behind))
            }
            Filter::Closed => Self::Nothing,
        }
    }

    /// Requests what the look-ups need from turn `first` on, up to the readahead distance.
    pub(crate) fn advance(&mut self, order: &LookupOrder<'_>, first: usize) {
        match self {
            Self::Bloom(readahead) => readahead.advance(order, first),
            Self::Fingerprint(readahead) => readahead.advance(order, first),
            Self::Nothing => {}
        }
    }

    /// Returns the file offsets of some of the pages that were requested.
    pub(crate) fn into_sample(self) -> Vec<u64> {
        match self {
            Self::Bloom(readahead) => readahead.sample,
            Self::Fingerprint(readahead) => readahead.into_sample(),
            Self::Nothing => Vec::new(),
        }
    }
}
