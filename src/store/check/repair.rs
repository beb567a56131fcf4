//! Repairing the pages of a store that is open.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::Layer;
use crate::file::layout::page_offset;
use crate::page::PAGE_BYTES;
use crate::store::check::verify::{Checker, Listed};
use crate::store::checkpoint::run::Checkpointer;
use crate::store::config::damage_policy::OnDamage;
use crate::store::coordination::handle::Handle;
use crate::store::coordination::shm::Coordination;
use crate::store::engine::Engine;
use crate::store::engine::damage::Damage;
use crate::store::storefile::store_file::StoreFile;
use crate::store::view::ViewCell;
use crate::sys::storage::write_all_at;

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
    /// The pages that were damaged, and now are as the policy says: the first 2^20 of them.
    pub pages: Vec<Damage>,
    /// Damaged pages beyond those, which are as the policy says too.
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

/// Rewrites damaged pages of an open store.
pub(crate) struct Repairer<'a> {
    checker: Checker<'a>,
    checkpointer: Checkpointer<'a>,
    handle: &'a Handle,
    shared: &'a Coordination,
    file: &'a StoreFile,
    views: &'a ViewCell,
}

impl<'a> Repairer<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            checker: Checker::of(engine),
            checkpointer: Checkpointer::of(engine),
            handle: &engine.handle,
            shared: &engine.shared,
            file: &engine.file,
            views: &engine.views,
        }
    }

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
        let _no_checkpoint = self.checkpointer.hold_off()?;
        let view = Arc::clone(&*self.views.current()?);
        let mut listed = Listed::default();
        let rewrite = |damage: Damage, _| {
            let layer = &view.superblock.layers[damage.layer as usize];
            self.rewrite(layer, &damage, view.superblock.generation, on)?;
            Ok(listed.add(damage, 1))
        };
        let outcome = self.checker.for_each_page(&view, |_| {}, rewrite);
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
}
