//! What a checkpoint does to the pages, by kind. The engine orders the steps and does not know which kind takes them.

use crate::bloom::counting_checkpoint::{self, CountingCheckpoint};
use crate::bloom::layer_checkpoint::BloomCheckpoint;
use crate::bloom::layer_checkpoint::target_layer;
use crate::config::buffer_growth::CheckpointWrites;
use crate::error::Result;
use crate::file::{Header, Layer, Superblock};
use crate::fingerprint::compaction::Compaction;
use crate::fingerprint::log_checkpoint::FingerprintCheckpoint;
use crate::fingerprint::negative_filter_update::HeldFilter;
use crate::fingerprint::pending_filter::PendingFilter;
use crate::page::Kind;
use crate::page_io::PageAccess;
use crate::page_io::page_checkpoint::{ClosedLog, PageCheckpoint};
use crate::storefile::store_file::StoreFile;

/// What this handle has mapped of the pages. A checkpoint asks late and keeps no map: a view that was replaced meanwhile
/// must not stay mapped beside its successor.
pub(crate) struct HeldPages<'a> {
    /// Returns how many layers are mapped.
    pub(crate) layers: &'a dyn Fn() -> usize,
    /// Returns the negative filter of the mapped segments.
    pub(crate) negative_filter: &'a dyn Fn() -> HeldFilter,
    pub(crate) pending_filter: &'a PendingFilter,
}

/// Returns the layer that takes `count` more keys, and its index; no layer where a checkpoint finds free room by itself.
pub(crate) fn target_of(
    file: &StoreFile,
    superblock: &Superblock,
    count: u64,
) -> Result<(u32, Option<Layer>)> {
    match file.header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => {
            let (index, layer) = target_layer(file, superblock, count)?;
            Ok((index, Some(layer)))
        }
        Kind::Fingerprint => Ok((0, None)),
    }
}

/// Returns what a checkpoint writes of the filter.
pub(crate) fn writes_of(header: &Header) -> CheckpointWrites {
    match header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => CheckpointWrites::ChangedPages,
        Kind::Fingerprint => CheckpointWrites::Runs,
    }
}

/// Refuses a checkpoint for which this process has no address space, as far as the header says what it needs.
pub(crate) fn expect_memory(access: PageAccess<'_>) -> Result<()> {
    match access.file.header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => {
            access.expect_memory(access.options.chunk_pages())
        }
        // Its largest segment says how much it is.
        Kind::Fingerprint => Ok(()),
    }
}

/// Begins the checkpoint of a closed log. Makes room for its pages.
pub(crate) fn begin<'a>(
    closed: &'a ClosedLog<'a>,
    held: &'a HeldPages<'a>,
) -> Result<Box<dyn PageCheckpoint + 'a>> {
    // A cut names a layer wherever there are layers, and the summary was compared with the superblock.
    assert_ne!(
        closed.cut.layer.is_some(),
        closed.meta.superblock.directory.is_some()
    );
    Ok(match closed.access.file.header.kind {
        Kind::Bloom | Kind::Scalable => Box::new(BloomCheckpoint::begin(closed, held.layers)?),
        Kind::Counting => Box::new(CountingCheckpoint::begin(closed, held.layers)?),
        Kind::Fingerprint => {
            let filters = (held.pending_filter, (held.negative_filter)());
            Box::new(FingerprintCheckpoint::begin(closed, filters)?)
        }
    })
}

/// Repairs pages that an interrupted checkpoint has left torn, before any reader looks at them. Other kinds than those that
/// count need not: setting a bit again or merging a fingerprint again changes nothing.
pub(crate) fn replay_journal(file: &StoreFile) -> Result<()> {
    match file.header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Fingerprint => Ok(()),
        Kind::Counting => counting_checkpoint::replay_journal(file),
    }
}

/// Returns what makes the file of a closing store as short as it can be; `None` for the kinds whose files never shrink.
pub(crate) fn compaction(access: PageAccess<'_>) -> Option<Compaction<'_>> {
    match access.file.header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => None,
        Kind::Fingerprint => Some(Compaction::new(access)),
    }
}
