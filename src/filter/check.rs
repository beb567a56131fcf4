//! What verifying, repairing and counting ask of the pages, by kind.

use std::sync::Arc;

use crate::bloom::layer_pages::LayerPages;
use crate::bloom::occupancy;
use crate::bloom::repair::rewrite_damaged;
use crate::bloom::verify::{LayerScan, Listed};
use crate::config::damage_policy::OnDamage;
use crate::error::Result;
use crate::file::{Header, Layer, Superblock};
use crate::fingerprint::verify::{self, verify_segments};
use crate::page::Kind;
use crate::shm::coordination::Coordination;
use crate::sizing;
use crate::storefile::meta::Meta;
use crate::storefile::progress::Visit;
use crate::storefile::store_file::StoreFile;

pub(crate) use crate::bloom::occupancy::{LayerOccupancy, together};
pub(crate) use crate::bloom::verify::MOST_LISTED;
pub(crate) use crate::fingerprint::verify::SegmentDamage;

/// The pages of an open store, whose checkpoints are held off.
#[derive(Clone, Copy)]
pub(crate) struct CheckedPages<'a> {
    pub(crate) file: &'a StoreFile,
    pub(crate) shared: &'a Coordination,
    /// The layers, and as they are mapped.
    pub(crate) layers: &'a [Layer],
    pub(crate) mapped: &'a [Arc<LayerPages>],
}

impl<'a> CheckedPages<'a> {
    fn of_layers(self) -> LayerScan<'a> {
        LayerScan {
            file: self.file,
            shared: self.shared,
            layers: self.layers,
            mapped: self.mapped,
        }
    }
}

/// What was found in all pages. Each kind leaves what it does not have empty.
#[derive(Default)]
pub(crate) struct FoundPages {
    pub(crate) pages: u64,
    pub(crate) blank: u64,
    pub(crate) bits_set: u64,
    pub(crate) layers: Vec<LayerOccupancy>,
    pub(crate) damaged: Listed,
    pub(crate) fingerprints: u64,
    pub(crate) segments: Vec<SegmentDamage>,
    /// How many fingerprints there may be.
    pub(crate) space: u64,
}

/// Reads and checks every page. `each` gets what is found in which pages of which layer.
pub(crate) fn verify(
    pages: CheckedPages<'_>,
    meta: &Meta,
    each: &mut Visit<'_>,
) -> Result<FoundPages> {
    Ok(match pages.file.header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => {
            let found = pages.of_layers().verify(each)?;
            FoundPages {
                pages: found.pages,
                blank: found.blank,
                bits_set: found.bits_set,
                layers: found.layers,
                damaged: found.damaged,
                ..FoundPages::default()
            }
        }
        Kind::Fingerprint => {
            let found = verify_segments(pages.file, meta, each)?;
            FoundPages {
                pages: found.pages,
                fingerprints: found.keys,
                segments: found.damaged,
                space: found.space,
                ..FoundPages::default()
            }
        }
    })
}

/// How the pages of a store are repaired.
pub(crate) enum Repair<'a> {
    /// Each damaged page is rewritten where it is.
    InPlace(LayerRepair<'a>),
    /// A checkpoint writes what is left of the damaged pages to other ones.
    ByCheckpoint(Vec<SegmentDamage>),
}

/// A repair of layers that has not begun.
pub(crate) struct LayerRepair<'a> {
    scan: LayerScan<'a>,
    generation: u64,
}

impl LayerRepair<'_> {
    /// Rewrites the damaged pages, and returns them.
    pub(crate) fn run(&self, on: OnDamage) -> Result<Listed> {
        rewrite_damaged(self.scan, self.generation, on)
    }
}

/// Refuses a policy that the kind's pages can't follow.
pub(crate) fn expect_repairable(header: &Header, on: OnDamage) -> Result<()> {
    match header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => Ok(()),
        Kind::Fingerprint => verify::expect_repairable(on),
    }
}

/// Returns how the pages are to be repaired. Reads those of a kind that a checkpoint repairs.
pub(crate) fn repair<'a>(pages: CheckedPages<'a>, superblock: &Superblock) -> Result<Repair<'a>> {
    Ok(match pages.file.header.kind {
        Kind::Bloom | Kind::Scalable | Kind::Counting => Repair::InPlace(LayerRepair {
            scan: pages.of_layers(),
            generation: superblock.generation,
        }),
        Kind::Fingerprint => {
            let meta = pages.file.read_meta()?;
            let found = verify_segments(pages.file, &meta, &mut |_| Ok(()))?;
            Repair::ByCheckpoint(found.damaged)
        }
    })
}

/// Returns how many pages a check of all of them reads, those that it reads twice counted twice.
pub(crate) fn pages_to_read(superblock: &Superblock) -> u64 {
    let layers = superblock.layers.iter().map(|layer| layer.pages);
    let passes = if superblock.runs().is_empty() { 1 } else { 2 };
    let segments = superblock.segment_pages().saturating_mul(passes);
    layers.fold(segments, u64::saturating_add)
}

/// Returns the rate of wrong answers that is expected of the pages at their current fill.
pub(crate) fn expected_rate(header: &Header, superblock: &Superblock) -> f64 {
    match header.space() {
        Some(space) => superblock.keys() as f64 / space.distinct() as f64,
        None => occupancy::expected_rate(&superblock.layers, header.kind.cell()),
    }
}

/// Returns the bits of the filter for each key that it has or, where its capacity is fixed, may have.
pub(crate) fn bits_per_key(header: &Header, superblock: &Superblock) -> f64 {
    let of_layers = || {
        let layers = superblock.layers.iter();
        layers.map(|layer| layer.pages * sizing::PAGE_BITS).sum()
    };
    let (bits, keys) = match header.kind {
        Kind::Bloom | Kind::Counting => (of_layers(), header.capacity),
        Kind::Scalable => (of_layers(), superblock.keys()),
        Kind::Fingerprint => (superblock.filter_bytes() * 8, superblock.keys()),
    };
    match keys {
        0 => 0.0,
        keys => bits as f64 / keys as f64,
    }
}
