//! Reading everything and naming what is damaged.

use super::engine::{Access, Engine};
use super::identity::read_identity;
use super::locks::lock_error;
use crate::error::{Error, Result};
use crate::page::{self, Content, PAGE_BYTES};
use crate::sys::{LockFile, lock};

/// What [`Store::verify`](crate::Store::verify) found.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Pages read.
    pub pages: u64,
    /// Pages that have never been written, among them.
    pub blank: u64,
    /// Bits set in all good pages together.
    pub bits_set: u64,
    /// The bad ones.
    pub damaged: Vec<Damage>,
}

impl VerifyReport {
    /// Whether nothing is damaged.
    pub fn is_ok(&self) -> bool {
        self.damaged.is_empty()
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
        read_identity(&*self.file, &self.path)?;
        let view = self.view()?;
        let window = self.shared.window();
        let mut report = VerifyReport::default();
        let mut copy = [0; PAGE_BYTES];
        for ((index, pages), layer) in (0..).zip(&view.layers).zip(&view.superblock.layers) {
            for page in 0..layer.pages {
                report.pages += 1;
                match pages.check(page, &mut copy) {
                    Ok(Content::Blank) => report.blank += 1,
                    Ok(Content::Sealed { occupancy, .. })
                        if page::count_bits(&copy) == occupancy =>
                    {
                        report.bits_set += u64::from(occupancy);
                    }
                    // To be mended by a checkpoint that is still due.
                    _ if window.holds(layer.first_page + page) => {}
                    _ => report.damaged.push(Damage {
                        layer: index,
                        page,
                        keys: layer.keys.div_ceil(layer.pages),
                    }),
                }
            }
        }
        Ok(report)
    }

    /// Keeps other processes from checkpoints while it is held.
    fn hold_checkpoints_off(&self) -> Result<Option<LockFile>> {
        if self.access == Access::Alone {
            return Ok(None);
        }
        let file = LockFile::open(&self.path).map_err(lock_error(&self.path))?;
        let taken = file.exclusive(self.options.timeout);
        if taken.map_err(lock_error(&self.path))? {
            return Ok(Some(file));
        }
        Err(Error::Busy {
            path: self.path.clone(),
            what: "a checkpoint",
            process: None,
        })
    }
}
