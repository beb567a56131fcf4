//! Repairing the pages of an open store.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::damage_policy::OnDamage;
use crate::engine::Engine;
use crate::engine::check::verify::Checker;
use crate::engine::checkpoint::run::Checkpointer;
use crate::engine::view::ViewCell;
use crate::engine::write::Writer;
use crate::error::{Error, Result};
use crate::filter::check::{self as filter, Repair, SegmentDamage};
use crate::page::Damage;
use crate::shm::handle::Handle;
use crate::storefile::store_file::StoreFile;

/// The result of [`Store::repair`](crate::Store::repair) and [`repair`](fn@crate::repair).
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
    /// [measured](crate::Measured).
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
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }
}

/// Rewrites damaged pages of an open store.
pub(crate) struct Repairer<'a> {
    checker: Checker<'a>,
    checkpointer: Checkpointer<'a>,
    handle: &'a Handle,
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
        filter::expect_repairable(&self.file.header, on)?;
        let held_off = self.checkpointer.hold_off()?;
        let view = Arc::clone(&*self.views.current()?);
        match filter::repair(self.checker.pages_of(&view), &view.superblock)? {
            Repair::InPlace(layers) => {
                let listed = self.handle.poison_on_failure(layers.run(on))?;
                Ok(RepairReport {
                    pages: listed.pages,
                    unlisted: listed.unlisted,
                    ..RepairReport::default()
                })
            }
            Repair::ByCheckpoint(segments) => {
                drop(held_off);
                // Its map would count twice while the checkpoint makes others.
                drop(view);
                if !segments.is_empty() {
                    self.checkpoint_repairing(on)?;
                }
                Ok(RepairReport {
                    segments,
                    ..RepairReport::default()
                })
            }
        }
    }

    /// Gives up what damaged pages have lost: a checkpoint writes what is left to other pages.
    fn checkpoint_repairing(&self, on: OnDamage) -> Result<()> {
        self.checkpointer.state.set_repairing(true);
        let options = self.checkpointer.options.clone().on_damage(on);
        let rewritten = self.writer.checkpoint_with(&options);
        self.checkpointer.state.set_repairing(false);
        rewritten
    }
}
