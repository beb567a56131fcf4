//! What snapshots and deltas ask of the pages, by kind.

use crate::bloom::layer_copy::check_pages;
use crate::bloom::layer_delta::{LayerDelta, write_changed_pages};
use crate::error::Result;
use crate::file::Superblock;
use crate::fingerprint::changed_segments::write_changed_segments;
use crate::fingerprint::segment_delta::SegmentDelta;
use crate::fingerprint::segment_reader::SegmentReader;
use crate::page::Kind;
use crate::page_io::page_delta::PageDelta;
use crate::storefile::delta_output::{Changes, DeltaOutput};
use crate::storefile::delta_reader::Delta;
use crate::storefile::page_scan;
use crate::storefile::progress::Watched;
use crate::storefile::still_file::StillFile;

pub(crate) use crate::bloom::layer_copy::check_page;
pub(crate) use crate::bloom::layer_delta::check_layers;

/// Returns how many pages of keys a superblock names.
pub(crate) fn pages_of(superblock: &Superblock) -> u64 {
    page_scan::count(&superblock.layers).saturating_add(superblock.segment_pages())
}

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

/// Returns the pages of a delta for a copy, which has the delta's superblock.
pub(crate) fn delta_pages<'a>(
    delta: &'a Delta<'a>,
    copy: StillFile<'a>,
) -> Result<Box<dyn PageDelta + 'a>> {
    Ok(match copy.header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => Box::new(LayerDelta::of(delta, copy)),
        Kind::Fingerprint => Box::new(SegmentDelta::of(delta, copy)?),
    })
}
