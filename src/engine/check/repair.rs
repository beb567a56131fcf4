//! Repairing the pages of an open store.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::damage_policy::OnDamage;
use crate::engine::Engine;
use crate::engine::check::verify::{Checker, Listed};
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::view::ViewCell;
use crate::engine::write::Writer;
use crate::error::{Error, Result};
use crate::file::Layer;
use crate::file::layout::page_offset;
use crate::fingerprint::verify::{SegmentDamage, verify_segments};
use crate::page::PAGE_BYTES;
use crate::page_io::damage::Damage;
use crate::shm::coordination::Coordination;
use crate::shm::handle::Handle;
use crate::storefile::store_file::StoreFile;
use crate::sys::storage::write_all_at;

/// The result of [`Store::repair`](crate::Store::repair) and [`Options::repair`](crate::Options::repair).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairReport {
    /// Whether the header was damaged and was restored from a superblock's copy.
    pub header: bool,
    /// Whether a superblock was damaged and was rewritten from the other one.
    pub superblock: bool,
    /// Whether the newest superblock, or the log that it expects, is lost. The store then went back to what is left:
    /// pages may hold keys that no commit covers, and writers' tags may be older ones.
    pub rolled_back: bool,
    /// Whether the newest log was missing although the previous one says that it existed. The previous log's keys were
    /// moved into the pages; the keys and commits of the missing one are lost.
    pub log_missing: bool,
    /// Bytes truncated from the logs because a record before them is damaged. The keys in them are lost.
    pub log_bytes: u64,
    /// Logs that do not belong to the store file, or whose header is damaged, by the names that they have now. They may be
    /// the only place that has their keys.
    pub set_aside: Vec<PathBuf>,
    /// Keys that a section of [exemptions](crate::Store::exempt) listed, where that section was damaged, or older than
    /// the pages, and was given up. They are seen again if the pages hold them.
    pub exemptions: u64,
    /// Whether the sample was damaged, or older than the pages, and was given up. The store is then no longer
    /// [measured](crate::Store::measured).
    pub sample: bool,
    /// The first 2^20 of the pages that were damaged. They are now as the policy says.
    pub pages: Vec<Damage>,
    /// The number of further damaged pages. They are also as the policy says.
    pub unlisted: u64,
    /// The damaged pages of a store of [`Kind::Fingerprint`](crate::Kind::Fingerprint). What they held alone is given up.
    pub segments: Vec<SegmentDamage>,
    /// Pages of fully written layers that are holes now, in layers with more holes than are listed. They count as never
    /// written from here on, and take no space.
    pub blank: u64,
}

impl RepairReport {
    /// Returns whether nothing was damaged.
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
    writer: Writer<'a>,
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
            writer: Writer::of(engine),
        }
    }

    /// Rewrites damaged pages. Holds off checkpoints meanwhile.
    pub(crate) fn repair(&self, on: OnDamage) -> Result<RepairReport> {
        self.handle.check_writable()?;
        if on == OnDamage::Error {
            return Err(Error::InvalidOption {
                option: "repair",
                expected: "never seen or seen".to_owned(),
                got: "error".to_owned(),
            });
        }
        if self.file.header.space().is_some() {
            return self.repair_segments(on);
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

    /// Gives up what damaged pages of segments have lost: a checkpoint writes anew what is left.
    fn repair_segments(&self, on: OnDamage) -> Result<RepairReport> {
        if on != OnDamage::NeverSeen {
            return Err(Error::InvalidOption {
                option: "repair",
                expected: "never seen for kind fingerprint: no page can have all keys".to_owned(),
                got: "seen".to_owned(),
            });
        }
        let held_off = self.checkpointer.hold_off()?;
        let meta = self.file.read_meta()?;
        let found = verify_segments(self.file, &meta, &mut |_, _| {})?;
        drop(held_off);
        let report = RepairReport {
            segments: found.damaged,
            ..RepairReport::default()
        };
        if !report.segments.is_empty() {
            self.checkpointer.state.set_repairing(true);
            let options = self.checkpointer.options.clone().on_damage(on);
            let rewritten = self.writer.checkpoint_with(&options);
            self.checkpointer.state.set_repairing(false);
            rewritten?;
        }
        Ok(report)
    }

    fn rewrite(&self, layer: &Layer, damage: &Damage, generation: u64, on: OnDamage) -> Result<()> {
        let number = layer.first_page + damage.page;
        let mut bytes = [0; PAGE_BYTES];
        let header = &self.file.header;
        let (binding, cell) = (header.binding(), header.kind.cell());
        on.replace(binding, cell, number, generation, &mut bytes);
        // A concurrent reader may see half of it: to that reader the page is as damaged as before.
        self.shared.window().publish(number..number + 1);
        write_all_at(&*self.file.raw, &bytes, page_offset(number))
            .map_err(|error| Error::io("repair a page of", &self.file.place, error))
    }
}
