//! What to do about a damaged page.

use crate::error::{Error, Result};
use crate::file::Layer;
use crate::file::layout::page_offset;
use crate::page::{self, PAGE_BYTES};
use crate::sizing::Cell;
use crate::store::check::verify::{Damage, Listed};
use crate::store::engine::Engine;
use crate::sys::lock;
use crate::sys::storage::write_all_at;

/// What a handle does when it meets a page that is not what was written.
///
/// A page's keys are lost with it: nobody can tell any more which they were. A crawler had rather
/// fetch them again; who must never act twice on a key had rather skip others with them.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDamage {
    /// Answer [`FormatError::PageDamaged`](crate::FormatError::PageDamaged), and leave the page as
    /// it is. A checkpoint that must write to the page fails; its keys stay in the log.
    #[default]
    Error,
    /// Take all its keys for never seen. The next checkpoint that brings keys for the page writes
    /// it anew, with those alone.
    NeverSeen,
    /// Take all its keys for seen, those too that never were: about one in so many as the layer has
    /// pages. The next checkpoint that brings keys for the page writes it so.
    Seen,
}

impl OnDamage {
    /// The answer of a damaged page, if there is to be one.
    pub(crate) fn answer(self) -> Option<bool> {
        match self {
            OnDamage::Error => None,
            OnDamage::NeverSeen => Some(false),
            OnDamage::Seen => Some(true),
        }
    }

    /// Makes of a damaged page one that verifies, if there is to be one.
    pub(crate) fn replace(
        self,
        cell: Cell,
        number: u64,
        generation: u64,
        bytes: &mut [u8],
    ) -> bool {
        let Some(seen) = self.answer() else {
            return false;
        };
        page::fill(cell, number, generation, seen, bytes);
        true
    }
}

/// What [`Store::repair`](crate::Store::repair) and [`Options::repair`](crate::Options::repair) did.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairReport {
    /// The header was damaged, and restored from a superblock's copy.
    pub header: bool,
    /// A superblock was damaged, and written anew from the other one.
    pub superblock: bool,
    /// The newest superblock is lost, or the log that it expects. The store went back to what is
    /// left: pages may hold keys that no commit tells of, and writers' tags may be older ones.
    pub rolled_back: bool,
    /// The newest log was missing, although the one before it says that there was one. What that one holds was brought
    /// into the pages; the keys and commits of the missing one are lost.
    pub log_missing: bool,
    /// Bytes cut off the logs because a record before them is damaged. The keys in them are lost.
    pub log_bytes: u64,
    /// Keys that were [exempt](crate::Store::exempt) by a section that is damaged, or older than the pages,
    /// and was given up: they are seen again, if the pages have them.
    pub exemptions: u64,
    /// The sample was damaged, or older than the pages, and was given up: the store is not
    /// [measured](crate::Store::measured) any more.
    pub sample: bool,
    /// The pages that were damaged, and now are as told: the first 2^20 of them.
    pub pages: Vec<Damage>,
    /// Damaged pages beyond those, which are as told too.
    pub unlisted: u64,
    /// Pages of layers that were written all over, and are holes now: more of them than are listed.
    /// They count as never written from here on, and take no room.
    pub blank: u64,
}

impl RepairReport {
    /// Whether nothing was damaged.
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }
}

impl Engine {
    /// Rewrites damaged pages. Holds checkpoints off meanwhile.
    pub(crate) fn repair(&self, on: OnDamage) -> Result<RepairReport> {
        self.handle.check_writable()?;
        if on == OnDamage::Error {
            return Err(Error::InvalidOption {
                option: "repair",
                expected: "never seen or seen".to_owned(),
                got: "error".to_owned(),
            });
        }
        let _no_checkpoint = lock(&self.checkpoints.running);
        let _nor_another = self.hold_checkpoints_off()?;
        let view = std::sync::Arc::clone(&*self.views.current()?);
        let mut listed = Listed::default();
        let rewrite = |damage: Damage, _| {
            let layer = &view.superblock.layers[damage.layer as usize];
            self.rewrite(layer, &damage, view.superblock.generation, on)?;
            Ok(listed.add(damage, 1))
        };
        let outcome = self.for_each_page(&view, |_| {}, rewrite);
        let outcome = outcome.and_then(|()| match listed.pages.is_empty() {
            true => Ok(()),
            false => self.file.sync("sync the repaired pages of"),
        });
        self.shared.window().publish(0..0);
        self.handle.poison_on_failure(outcome)?;
        Ok(RepairReport {
            pages: listed.pages,
            unlisted: listed.unlisted,
            ..RepairReport::default()
        })
    }

    fn rewrite(&self, layer: &Layer, damage: &Damage, generation: u64, on: OnDamage) -> Result<()> {
        let number = layer.first_page + damage.page;
        let mut bytes = [0; PAGE_BYTES];
        on.replace(self.file.header.kind.cell(), number, generation, &mut bytes);
        // Half of it may be seen by who reads it now: to them it is as damaged as it was.
        self.shared.window().publish(number..number + 1);
        write_all_at(&*self.file.raw, &bytes, page_offset(number))
            .map_err(|error| Error::io("repair a page of", &self.file.place, error))
    }

    /// Keeps in mind that a checkpoint has written a damaged page anew.
    pub(crate) fn note_repair(&self, layer: u32, page: u64, keys: u64) {
        lock(&self.checkpoints.repaired).push(Damage { layer, page, keys });
    }
}
