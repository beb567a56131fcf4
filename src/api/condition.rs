//! What a store says about itself, and its repair.

use std::ops::{ControlFlow, Range};

use crate::api::store::Store;
use crate::config::damage_policy::OnDamage;
use crate::engine::Engine;
use crate::engine::check::fullness::{Fullness, KeyCounter};
use crate::engine::check::keys_by_age::{KeysByAge, keys_by_age};
use crate::engine::check::repair::{RepairReport, Repairer};
use crate::engine::check::stats::{self, Stats};
use crate::engine::check::verify::{Checker, VerifyReport};
use crate::engine::read::Reader;
use crate::engine::recovery_report::RecoveryReport;
use crate::error::Result;
use crate::page::PageState;
use crate::storefile::progress::{Progress, Visited};

impl Store {
    /// Returns what the store knows about itself without reading its pages.
    ///
    /// # Errors
    /// If superblock or logs can't be read.
    pub fn stats(&self) -> Result<Stats> {
        self.read(stats::stats)
    }

    /// Returns how many keys there are and how many there may be, and what memory the write buffers take. Takes about ten
    /// nanoseconds, cheap enough to call after each batch in order to create a larger store in time.
    ///
    /// # Errors
    /// The same as [`stats`](Self::stats).
    pub fn fullness(&self) -> Result<Fullness> {
        self.read(|engine| KeyCounter::of(engine).fullness())
    }

    /// Returns how many keys came in each step of a store that [forgets](crate::CreateOptions::forget_after), and when these are
    /// forgotten; `None` if it keeps keys for ever. Reads 1,024 pages at most, 4 MiB: of larger stores the numbers are
    /// estimates, wrong by a percent or so.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::Error::Busy) if checkpoints overtake it again and again.
    pub fn keys_by_age(&self) -> Result<Option<KeysByAge>> {
        self.read(keys_by_age)
    }

    /// Reads everything (header, superblocks and every page) and lists what is damaged. Does not read the logs, which
    /// are checked whenever they are read.
    ///
    /// # Errors
    /// If the header or both superblocks are damaged.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.read(|engine| Self::verify_in(engine, |checker| checker.verify(&mut |_| Ok(()))))
    }

    /// Like [`verify`](Self::verify), but reports its progress to `watch` from time to time. `watch` may end it early. What
    /// is to be read twice counts twice.
    ///
    /// # Errors
    /// The same as [`verify`](Self::verify); [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn verify_watched(
        &self,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<VerifyReport> {
        self.read(|engine| Self::verify_in(engine, |checker| checker.verify_watched(&mut watch)))
    }

    /// Does the same as [`verify`](Self::verify), and passes on what it finds: `each` gets the number of a layer, a run of
    /// its pages, and what each of them is. Runs come in order. Pages that a checkpoint is just writing are left out.
    ///
    /// # Errors
    /// If the header or both superblocks are damaged.
    pub fn verify_pages(
        &self,
        mut each: impl FnMut(u32, Range<u64>, PageState),
    ) -> Result<VerifyReport> {
        let mut visit = |visited| {
            if let Visited::Pages(layer, pages, state) = visited {
                each(layer, pages, state);
            }
            Ok(())
        };
        self.read_once(|engine| Self::verify_in(engine, |checker| checker.verify(&mut visit)))
    }

    fn verify_in<'e>(
        engine: &'e Engine,
        check: impl FnOnce(Checker<'e>) -> Result<VerifyReport>,
    ) -> Result<VerifyReport> {
        let report = check(Checker::of(engine))?;
        Reader::of(engine).expect_name()?;
        Ok(report)
    }

    /// Rewrites each damaged page so that it verifies: as a page that holds no key ([`OnDamage::NeverSeen`]) or every
    /// key ([`OnDamage::Seen`]). Other handles may have the store open; checkpoints wait. For a store that can't be
    /// opened, and for a damaged section, use [`repair`](fn@crate::repair).
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for [`OnDamage::Error`]; a full or
    /// failing disk. After an error some pages may have been repaired and others not.
    pub fn repair(&self, policy: OnDamage) -> Result<RepairReport> {
        Repairer::of(&self.engine).repair(policy)
    }

    /// Returns the bytes that the store was created with, as [`CreateOptions::label`](crate::CreateOptions::label) says.
    pub fn label(&self) -> Option<&[u8]> {
        self.engine.label.as_deref()
    }

    /// Returns what opening found and what it did about it.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.engine.recovery
    }
}
