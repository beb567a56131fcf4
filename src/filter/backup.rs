//! What snapshots and deltas ask of the pages, by kind.

use crate::bloom::layer_copy::check_pages;
use crate::bloom::layer_delta::{LayerDelta, write_changed_pages};
use crate::error::Result;
use crate::file::Superblock;
use crate::file::delta::Content;
use crate::fingerprint::changed_segments::write_changed_segments;
use crate::fingerprint::segment_delta::SegmentDelta;
use crate::fingerprint::segment_reader::SegmentReader;
use crate::page::Kind;
use crate::storefile::delta_output::{Changes, DeltaOutput};
use crate::storefile::delta_reader::Delta;
use crate::storefile::page_scan;
use crate::storefile::progress::Watched;
use crate::storefile::still_file::StillFile;

pub(crate) use crate::bloom::layer_copy::check_page;
pub(crate) use crate::bloom::layer_delta::check_layers;

/// All pages of a file that nothing changes.
pub(crate) enum StillPages<'a> {
    Layers(StillFile<'a>),
    Segments(SegmentReader<'a>),
}

impl<'a> StillPages<'a> {
    pub(crate) fn open(still: StillFile<'a>) -> Result<Self> {
        Ok(match still.header.kind {
            Kind::Bloom | Kind::Scalable | Kind::Counting => Self::Layers(still),
            Kind::Fingerprint => Self::Segments(SegmentReader::of(still)?),
        })
    }

    /// Checks all pages and returns their digest.
    pub(crate) fn check(&self, watched: &mut Watched<'_>) -> Result<u64> {
        match self {
            Self::Layers(still) => check_pages(*still, watched),
            Self::Segments(segments) => segments.check(watched),
        }
    }

    /// Zeroes everything that the superblock does not name.
    pub(crate) fn clear_unnamed(&self) -> Result<()> {
        match self {
            Self::Layers(still) => {
                page_scan::clear_unnamed(still.file, still.path, still.superblock)
            }
            Self::Segments(segments) => segments.clear_unnamed(),
        }
    }
}

/// Writes the pages of `store` that its copy lacks.
pub(crate) fn write_changes(
    store: StillFile<'_>,
    copy: StillFile<'_>,
    out: &mut DeltaOutput<'_>,
    watched: &mut Watched<'_>,
) -> Result<Changes> {
    match store.header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => {
            write_changed_pages(store, copy, out, watched)
        }
        Kind::Fingerprint => write_changed_segments(store, copy, out, watched),
    }
}

/// The pages of a delta, and the copy they are for.
pub(crate) enum DeltaPages<'a> {
    Layers(LayerDelta<'a>),
    Segments(SegmentDelta<'a>),
}

impl<'a> DeltaPages<'a> {
    /// `copy` has the superblock of the delta.
    pub(crate) fn of(delta: &'a Delta<'a>, copy: StillFile<'a>) -> Result<Self> {
        Ok(match copy.header.kind {
            Kind::Bloom | Kind::Scalable | Kind::Counting => {
                Self::Layers(LayerDelta::of(delta, copy))
            }
            Kind::Fingerprint => Self::Segments(SegmentDelta::of(delta, copy)?),
        })
    }

    /// Checks the whole delta. Returns the digest that a copy with the superblock `old` will have.
    pub(crate) fn check(
        &self,
        old: Option<&Superblock>,
        content: Content,
        watched: &mut Watched<'_>,
    ) -> Result<Option<u64>> {
        match self {
            Self::Layers(delta) => delta.check(old, content, watched),
            Self::Segments(delta) => delta.check(old, content, watched),
        }
    }

    /// Writes the pages and the sections, and zeroes between. Syncs nothing.
    pub(crate) fn write(&self, content: Content) -> Result<()> {
        match self {
            Self::Layers(delta) => delta.write(content),
            Self::Segments(delta) => delta.write(content),
        }
    }

    /// Returns the digest of all pages of the copy, which it checks.
    pub(crate) fn digest(&self) -> Result<u64> {
        match self {
            Self::Layers(delta) => delta.digest(),
            Self::Segments(delta) => delta.digest(),
        }
    }
}
