//! Reads all pages of layers and lists what is damaged.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use crate::bloom::layer_pages::LayerPages;
use crate::bloom::occupancy::{LayerOccupancy, Occupied};
use crate::error::Result;
use crate::file::Layer;
use crate::page::Damage;
use crate::page::{self, Content, PAGE_BYTES, PageState};
use crate::shm::coordination::Coordination;
use crate::storefile::page_scan::{self, Pages};
use crate::storefile::progress::{Visit, Visited};
use crate::storefile::store_file::StoreFile;

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
pub(super) enum Look<'a> {
    /// A layer and blank pages of it.
    Blank(usize, Range<u64>),
    /// A layer and one of its pages, with its occupancy and its bytes.
    Sealed(usize, u64, u32, &'a [u8]),
}

/// What the layers of a store hold.
#[derive(Default)]
pub(crate) struct LayerReport {
    /// Pages read.
    pub(crate) pages: u64,
    /// Pages among them that have never been written.
    pub(crate) blank: u64,
    /// Bits set in all good pages together, or counters above 0.
    pub(crate) bits_set: u64,
    pub(crate) layers: Vec<LayerOccupancy>,
    pub(crate) damaged: Listed,
}

/// Reads all pages of the layers of an open store. The caller keeps checkpoints from running.
#[derive(Clone, Copy)]
pub(crate) struct LayerScan<'a> {
    pub(crate) file: &'a StoreFile,
    pub(crate) shared: &'a Coordination,
    /// The layers, and as they are mapped.
    pub(crate) layers: &'a [Layer],
    pub(crate) mapped: &'a [Arc<LayerPages>],
}

impl LayerScan<'_> {
    /// Checks all pages. `each` gets what is found in which pages of which layer.
    pub(crate) fn verify(self, each: &mut Visit<'_>) -> Result<LayerReport> {
        let mut layers: Vec<_> = self.layers.iter().map(Occupied::new).collect();
        let mut report = LayerReport {
            pages: page_scan::count(self.layers),
            ..LayerReport::default()
        };
        let each = RefCell::new(each);
        let look = |look: Look<'_>| match look {
            Look::Blank(layer, pages) => {
                report.blank += pages.end - pages.start;
                layers[layer].blank(pages.end - pages.start);
                each.borrow_mut()(Visited::Pages(layer as u32, pages, PageState::Blank))
            }
            Look::Sealed(layer, number, occupancy, page) => {
                report.bits_set += u64::from(occupancy);
                layers[layer].page(occupancy, page);
                let good = PageState::Good { set: occupancy };
                each.borrow_mut()(Visited::Pages(layer as u32, number..number + 1, good))
            }
        };
        let mut listed = Listed::default();
        let bad = |damage: Damage, run| {
            let (layer, first) = (damage.layer, damage.page);
            let pages = listed.add(damage, run);
            let damaged = Visited::Pages(layer, first..first + pages, PageState::Damaged);
            each.borrow_mut()(damaged).map(|()| pages)
        };
        self.for_each_page(look, bad)?;
        report.damaged = listed;
        report.layers = layers.iter().map(Occupied::result).collect();
        Ok(report)
    }

    /// Visits all pages without reading holes. `good` gets good pages. `bad` gets a bad page that no checkpoint is about
    /// to mend, and the length of the run of bad pages that it begins. It returns how many pages of that run it has
    /// handled.
    pub(super) fn for_each_page(
        self,
        mut good: impl FnMut(Look<'_>) -> Result<()>,
        mut bad: impl FnMut(Damage, u64) -> Result<u64>,
    ) -> Result<()> {
        // A layer that is not mapped would not be read, and its damage not told (I6).
        assert_eq!(self.mapped.len(), self.layers.len());
        let window = self.shared.window();
        let cell = self.file.header.kind.cell();
        for ((index, held), layer) in (0..).zip(self.mapped).zip(self.layers) {
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
                        ))?;
                    }
                    Ok(Content::Sealed { occupancy, .. })
                        if page::count_occupied(cell, pages.page(at, end)?) == occupancy =>
                    {
                        let number = at - layer.first_page;
                        good(Look::Sealed(index, number, occupancy, pages.page(at, end)?))?;
                    }
                    _ => {
                        let mut number = at;
                        while number < end {
                            let damage = Damage {
                                layer: index as u32,
                                page: number - layer.first_page,
                                keys: layer.keys_a_page(),
                            };
                            let handled = match window.holds(number) {
                                true => 1,
                                false => bad(damage, end - number)?,
                            };
                            // None is passed over, and none comes twice.
                            assert!((1..=end - number).contains(&handled), "{handled}");
                            number += handled;
                        }
                    }
                }
                at = end;
            }
        }
        Ok(())
    }
}
