//! Reading everything and naming what is damaged.

use super::engine::{Access, Engine, View};
use super::fullness::{LayerOccupancy, Occupied, together};
use super::identity::read_identity;
use super::kept::failed;
use super::locks::Intention;
use crate::error::{Error, Result};
use crate::file::{FormatError, SuperblockFault};
use crate::page::{self, Content, PAGE_BYTES};
use crate::sys::{RangeLock, lock};

/// What [`Store::verify`](crate::Store::verify) found.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VerifyReport {
    /// Pages read.
    pub pages: u64,
    /// Pages that have never been written, among them.
    pub blank: u64,
    /// Bits set in all good pages together, or counters above 0.
    pub bits_set: u64,
    /// What the bits tell of each layer, oldest first: keys, and how wrong they make it.
    pub layers: Vec<LayerOccupancy>,
    /// The bad ones.
    pub damaged: Vec<Damage>,
    /// What is wrong with sections, hashes that are kept exactly: a
    /// [`FormatError::SectionDamaged`] for each bad one.
    pub sections: Vec<FormatError>,
    /// What is wrong with one of the two superblocks, if something is: a power cut may have come
    /// while it was written. The store lives on the other one, and nothing is lost; the next
    /// checkpoint, or a repair, writes it anew.
    pub superblock: Option<SuperblockFault>,
}

impl VerifyReport {
    /// Whether no page and no section is damaged.
    pub fn is_ok(&self) -> bool {
        self.damaged.is_empty() && self.sections.is_empty()
    }

    /// Estimate of the different keys that the pages were shown, by the bits that are set: those wrongly taken for seen are
    /// among them, those in the write buffer are not.
    pub fn keys_estimate(&self) -> f64 {
        self.layers.iter().map(|layer| layer.keys).sum()
    }

    /// The rate of wrong answers "seen" of all layers together, by the bits that are set.
    pub fn fpr(&self) -> f64 {
        together(self.layers.iter().map(|layer| layer.fpr))
    }
}

/// A page that is not what was written.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The layer, counted from 0.
    pub layer: u32,
    /// The page within the layer, counted from 0.
    pub page: u64,
    /// How many keys are concerned, about: the layer's keys over its pages.
    pub keys: u64,
}

impl Engine {
    /// Reads the header, both superblocks and every page. Holds checkpoints off meanwhile.
    pub(crate) fn verify(&self) -> Result<VerifyReport> {
        self.check_usable()?;
        let _no_checkpoint = lock(&self.checkpoint);
        let _nor_another = self.hold_checkpoints_off()?;
        let identity = read_identity(&*self.file, &self.place)?;
        let view = std::sync::Arc::clone(&*self.view()?);
        let mut report = VerifyReport {
            superblock: identity.damaged,
            ..VerifyReport::default()
        };
        for section in &identity.superblock.sections {
            let checked = section.check(&*self.file);
            let checked = checked.map_err(|error| failed(&self.place, error))?;
            report.sections.extend(checked.err());
        }
        let layers = view.superblock.layers.iter();
        let mut layers: Vec<_> = layers.map(Occupied::new).collect();
        report.damaged = self.damaged_pages(&view, |content, page, layer| {
            report.pages += 1;
            let occupancy = match content {
                Some(Content::Blank) => {
                    report.blank += 1;
                    0
                }
                Some(Content::Sealed { occupancy, .. }) => occupancy,
                None => return,
            };
            report.bits_set += u64::from(occupancy);
            layers[layer as usize].page(occupancy, page);
        });
        report.layers = layers.iter().map(Occupied::result).collect();
        Ok(report)
    }

    /// The damaged pages among all of a view. `each` is told of every page, with its content
    /// unless it is bad or about to be mended by a checkpoint, its bytes, and its layer.
    pub(crate) fn damaged_pages(
        &self,
        view: &View,
        mut each: impl FnMut(Option<Content>, &[u8], u32),
    ) -> Vec<Damage> {
        let window = self.shared.window();
        let cell = self.header.kind.cell();
        let mut copy = [0; PAGE_BYTES];
        let mut damaged = Vec::new();
        for ((index, pages), layer) in (0..).zip(&view.layers).zip(&view.superblock.layers) {
            for page in 0..layer.pages {
                let content = match pages.check(page, &mut copy) {
                    Ok(Content::Sealed { occupancy, .. })
                        if page::count_occupied(cell, &copy) != occupancy =>
                    {
                        None
                    }
                    outcome => outcome.ok(),
                };
                each(content, &copy, index);
                if content.is_none() && !window.holds(layer.first_page + page) {
                    damaged.push(Damage {
                        layer: index,
                        page,
                        keys: layer.keys_a_page(),
                    });
                }
            }
        }
        damaged
    }

    /// Keeps other processes from checkpoints while it is held.
    pub(crate) fn hold_checkpoints_off(&self) -> Result<Option<RangeLock>> {
        if self.access == Access::Alone {
            return Ok(None);
        }
        let intention = match self.writes() {
            true => Intention::Write,
            false => Intention::Read,
        };
        let timeout = self.options.timeout;
        let taken = self.locks.hold_checkpoints_off(intention, timeout)?;
        if taken.is_some() {
            return Ok(taken);
        }
        Err(Error::Busy {
            path: self.place.to_path_buf(),
            what: "a checkpoint",
            process: None,
        })
    }
}
