//! Reads everything and lists what is damaged.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::view::{View, ViewCell};
use crate::error::Result;
use crate::file::{FormatError, SuperblockFault};
use crate::filter::check::{self as filter, CheckedPages, LayerOccupancy, SegmentDamage, together};
use crate::page::{Damage, PAGE_BYTES};
use crate::shm::coordination::Coordination;
use crate::shm::handle::Handle;
use crate::storefile::meta::section_error;
use crate::storefile::progress::{Progress, Visit, Watched};
use crate::storefile::store_file::StoreFile;

/// The result of [`Store::verify`](crate::Store::verify).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
#[must_use = "damage is no error: the report lists it"]
pub struct VerifyReport {
    /// Pages read.
    pub pages: u64,
    /// Pages among them that have never been written.
    pub blank: u64,
    /// Bits set in all good pages together, or counters above 0.
    pub bits_set: u64,
    /// What the bits say about each layer, oldest first: its keys and its false-positive rate.
    pub layers: Vec<LayerOccupancy>,
    /// The first 2^20 of the bad pages.
    pub damaged: Vec<Damage>,
    /// The number of further bad pages.
    pub unlisted: u64,
    /// In a store of [`Kind::Fingerprint`](crate::Kind::Fingerprint), the fingerprints on all good pages.
    pub fingerprints: u64,
    /// In such a store, all bad pages; [`damaged`](Self::damaged) is empty.
    pub segments: Vec<SegmentDamage>,
    /// How many fingerprints there may be; 0 in a store of another kind.
    pub(crate) space: u64,
    /// Faults in sections, which keep hashes exactly: a [`FormatError::SectionDamaged`] for each bad section.
    pub sections: Vec<FormatError>,
    /// The fault in one of the two superblocks, if there is one: a power cut may have struck while it was written. The
    /// store uses the other one, and nothing is lost. The next checkpoint, or a repair, rewrites it.
    pub superblock: Option<SuperblockFault>,
}

impl VerifyReport {
    /// Returns whether no page and no section is damaged.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.damaged.is_empty() && self.segments.is_empty() && self.sections.is_empty()
    }

    /// Estimates the distinct keys that the pages were offered, from the bits that are set. Keys wrongly taken for seen
    /// are included; keys in the write buffer are not. In a store of fingerprints this is exact: the fingerprints in good
    /// pages.
    #[must_use]
    pub fn keys_estimate(&self) -> f64 {
        let layers: f64 = self.layers.iter().map(|layer| layer.keys).sum();
        layers + self.fingerprints as f64
    }

    /// Returns the rate of wrong "seen" answers of all layers together, from the bits that are set, or the share of all
    /// possible fingerprints that the store has.
    #[must_use]
    pub fn fpr(&self) -> f64 {
        if self.space > 0 {
            return self.fingerprints as f64 / self.space as f64;
        }
        together(self.layers.iter().map(|layer| layer.fpr))
    }
}

/// Reads all pages of an open store.
#[derive(Clone, Copy)]
pub(crate) struct Checker<'a> {
    checkpointer: Checkpointer<'a>,
    handle: &'a Handle,
    shared: &'a Coordination,
    file: &'a StoreFile,
    views: &'a ViewCell,
}

impl<'a> Checker<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            checkpointer: Checkpointer::of(engine),
            handle: &engine.handle,
            shared: &engine.shared,
            file: &engine.file,
            views: &engine.views,
        }
    }

    /// Does as [`verify`](Self::verify), and reports the progress.
    pub(crate) fn verify_watched(
        &self,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<VerifyReport> {
        let pages = filter::pages_to_read(&self.file.read_meta()?.superblock);
        let total = pages.saturating_mul(PAGE_BYTES as u64);
        let mut watched = Watched::new(watch, total);
        watched.at(0)?;
        let report = self.verify(&mut |visited| watched.more(visited.pages()))?;
        watched.at(total)?;
        Ok(report)
    }

    /// Reads the header, both superblocks and every page. Holds off checkpoints meanwhile. `each` gets what is found in
    /// which pages of which layer.
    pub(crate) fn verify(&self, each: &mut Visit<'_>) -> Result<VerifyReport> {
        self.handle.check_usable()?;
        let _no_checkpoint = self.checkpointer.hold_off()?;
        let meta = self.file.read_meta()?;
        let view = Arc::clone(&*self.views.current()?);
        let mut report = VerifyReport {
            superblock: meta.damaged.clone(),
            ..VerifyReport::default()
        };
        for section in &meta.superblock.sections {
            let checked = section.check(&*self.file.raw);
            let checked = checked.map_err(|error| section_error(&self.file.place, error))?;
            report.sections.extend(checked.err());
        }
        let pages = self.pages_of(&view);
        let found = filter::verify(pages, &meta, each)?;
        // A page that is counted twice hides one that nothing has read.
        assert!(
            found.blank <= found.pages,
            "{} of {}",
            found.blank,
            found.pages
        );
        // The kind has either layers or segments, and each says what is wrong with its own pages.
        assert!(found.layers.is_empty() || found.segments.is_empty());
        Ok(VerifyReport {
            pages: found.pages,
            blank: found.blank,
            bits_set: found.bits_set,
            layers: found.layers,
            damaged: found.damaged.pages,
            unlisted: found.damaged.unlisted,
            fingerprints: found.fingerprints,
            segments: found.segments,
            space: found.space,
            ..report
        })
    }

    /// Returns the pages of a view. The caller holds off checkpoints.
    pub(crate) fn pages_of<'v>(&self, view: &'v View) -> CheckedPages<'v>
    where
        'a: 'v,
    {
        CheckedPages {
            file: self.file,
            shared: self.shared,
            layers: &view.superblock.layers,
            mapped: view.filter.layers(),
        }
    }
}
