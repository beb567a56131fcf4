//! Asks the system for pages ahead of the look-ups, as each kind does it.

use crate::bloom::readahead::Readahead as LayerReadahead;
use crate::filter::Filter;
use crate::fingerprint::readahead::SegmentReadahead;
use crate::prefetch::BehindWalk;
use crate::prefetch::lookup_order::LookupOrder;
use crate::sys::storage::StorageFile;

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
            Filter::Fingerprint(segments) => Self::Fingerprint(SegmentReadahead::new(segments)),
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
            Self::Fingerprint(_) | Self::Nothing => Vec::new(),
        }
    }
}
