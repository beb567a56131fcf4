//! Reads everything and lists what is damaged.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::check::fullness::{LayerOccupancy, Occupied, together};
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::view::{View, ViewCell};
use crate::error::Result;
use crate::file::{FormatError, SuperblockFault};
use crate::fingerprint::verify::{SegmentDamage, verify_segments};
use crate::page::PageState;
use crate::page::{self, Content, PAGE_BYTES};
use crate::page_io::damage::Damage;
use crate::shm::coordination::Coordination;
use crate::shm::handle::Handle;
use crate::storefile::meta::section_error;
use crate::storefile::page_scan::{self, Pages};
use crate::storefile::store_file::StoreFile;

/// The result of [`Store::verify`](crate::Store::verify).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
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
    pub fn is_ok(&self) -> bool {
        self.damaged.is_empty() && self.segments.is_empty() && self.sections.is_empty()
    }

    /// Estimates the distinct keys that the pages were offered, from the bits that are set. Keys wrongly taken for seen
    /// are included; keys in the write buffer are not. In a store of fingerprints this is exact: the fingerprints in good
    /// pages.
    pub fn keys_estimate(&self) -> f64 {
        let layers: f64 = self.layers.iter().map(|layer| layer.keys).sum();
        layers + self.fingerprints as f64
    }

    /// Returns the rate of wrong "seen" answers of all layers together, from the bits that are set, or the share of all
    /// possible fingerprints that the store has.
    pub fn fpr(&self) -> f64 {
        if self.space > 0 {
            return self.fingerprints as f64 / self.space as f64;
        }
        together(self.layers.iter().map(|layer| layer.fpr))
    }
}

/// The most damaged pages that are listed. A longer list would be of no use.
pub(crate) const MOST_LISTED: u64 = 1 << 20;

/// The first damaged pages, and the number of the others.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) pages: Vec<Damage>,
    pub(crate) unlisted: u64,
}

impl Listed {
    /// Adds the first page of a run of damaged pages, or the whole run once the list is full. Returns how many pages it
    /// has added.
    pub(crate) fn add(&mut self, damage: Damage, run: u64) -> u64 {
        if (self.pages.len() as u64) < MOST_LISTED {
            self.pages.push(damage);
            return 1;
        }
        self.unlisted += run;
        run
    }
}

/// Good pages of a layer.
pub(crate) enum Look<'a> {
    /// A layer and blank pages of it.
    Blank(usize, Range<u64>),
    /// A layer and one of its pages, with its occupancy and its bytes.
    Sealed(usize, u64, u32, &'a [u8]),
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

    /// Reads the header, both superblocks and every page. Holds off checkpoints meanwhile. `each` gets what is found in
    /// which pages of which layer.
    pub(crate) fn verify(
        &self,
        each: &mut dyn FnMut(u32, Range<u64>, PageState),
    ) -> Result<VerifyReport> {
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
        if let Some(space) = self.file.header.space() {
            report.space = space.count();
            let each = &mut |page, state| each(0, page..page + 1, state);
            let found = verify_segments(self.file, &meta, each)?;
            report.pages = found.pages;
            report.fingerprints = found.keys;
            report.segments = found.damaged;
            return Ok(report);
        }
        let layers = view.superblock.layers.iter();
        let mut layers: Vec<_> = layers.map(Occupied::new).collect();
        report.pages = page_scan::count(&view.superblock.layers);
        let each = RefCell::new(each);
        let look = |look: Look<'_>| match look {
            Look::Blank(layer, pages) => {
                report.blank += pages.end - pages.start;
                layers[layer].blank(pages.end - pages.start);
                each.borrow_mut()(layer as u32, pages, PageState::Blank);
            }
            Look::Sealed(layer, number, occupancy, page) => {
                report.bits_set += u64::from(occupancy);
                layers[layer].page(occupancy, page);
                let good = PageState::Good { set: occupancy };
                each.borrow_mut()(layer as u32, number..number + 1, good);
            }
        };
        let mut listed = Listed::default();
        let bad = |damage: Damage, run| {
            let (layer, first) = (damage.layer, damage.page);
            let pages = listed.add(damage, run);
            each.borrow_mut()(layer, first..first + pages, PageState::Damaged);
            Ok(pages)
        };
        self.for_each_page(&view, look, bad)?;
        (report.damaged, report.unlisted) = (listed.pages, listed.unlisted);
        report.layers = layers.iter().map(Occupied::result).collect();
        Ok(report)
    }

    /// Visits all pages of a view without reading holes. `good` gets good pages. `bad` gets a bad page that no
    /// checkpoint is about to mend, and the length of the run of bad pages that it begins. It returns how many pages of
    /// that run it has handled.
    pub(crate) fn for_each_page(
        &self,
        view: &View,
        mut good: impl FnMut(Look<'_>),
        mut bad: impl FnMut(Damage, u64) -> Result<u64>,
    ) -> Result<()> {
        let window = self.shared.window();
        let cell = self.file.header.kind.cell();
        for ((index, held), layer) in (0..).zip(view.filter.layers()).zip(&view.superblock.layers) {
            let mut pages = Pages::new(&*self.file.raw, &self.file.place);
            let mut at = layer.first_page;
            while at < layer.end_page() {
                let hole = pages.hole(at, layer.end_page())?;
                let found = match hole {
                    0 => held.check_bytes(at, pages.page(at, layer.end_page())?),
                    _ => held.check_bytes(at, &[0; PAGE_BYTES]),
                };
                let end = at + hole.max(1);
                match found {
                    Ok(Content::Blank) => {
                        good(Look::Blank(
                            index,
                            at - layer.first_page..end - layer.first_page,
                        ));
                    }
                    Ok(Content::Sealed { occupancy, .. })
                        if page::count_occupied(cell, pages.page(at, end)?) == occupancy =>
                    {
                        let number = at - layer.first_page;
                        good(Look::Sealed(index, number, occupancy, pages.page(at, end)?));
                    }
                    _ => {
                        let mut number = at;
                        while number < end {
                            let damage = Damage {
                                layer: index as u32,
                                page: number - layer.first_page,
                                keys: layer.keys_a_page(),
                            };
                            number += match window.holds(number) {
                                true => 1,
                                false => bad(damage, end - number)?,
                            };
                        }
                    }
                }
                at = end;
            }
        }
        Ok(())
    }
}
