//! Repairing a store that no handle has open: first what keeps it from being opened, then its pages.
//!
//! Each step leaves the store no worse than it was, so a repair that is interrupted can be repeated.

use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::config::damage_policy::OnDamage;
use crate::config::open_options::OpenOptions;
use crate::engine::check::repair::{RepairReport, Repairer};
use crate::engine::check::set_clock::set_clock;
use crate::engine::open::handle::check_exists;
use crate::error::{Error, Result};
use crate::file::layout::{PAGES_OFFSET, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::file::{FormatError, Header, Layer, Section, SectionKind, Superblock};
use crate::filter::check::MOST_LISTED;
use crate::page::{self, PAGE_BYTES};
use crate::shm::locks::{Intention, OpenCloseLock, PresenceLock, locked};
use crate::shm::place::Place;
use crate::storefile::meta::identify;
use crate::storefile::meta::section_error;
use crate::storefile::page_scan::Pages;
use crate::sys::storage::{StorageFile, read_exact_at, write_all_at};
use crate::wal::{LogError, log_path};

/// Repairs a store, and sets its time if the options name one.
pub(crate) fn repair(options: &OpenOptions, path: &Path, on: OnDamage) -> Result<RepairReport> {
    // No key is accepted, so a store that forgets needs no later time than it has recorded.
    let report = repair_at_rest(&options.clone().clock(UNIX_EPOCH), path, on)?;
    if let Some(time) = options.clock {
        set_clock(options, path, time)?;
    }
    Ok(report)
}

fn repair_at_rest(options: &OpenOptions, path: &Path, on: OnDamage) -> Result<RepairReport> {
    check_exists(options, path)?;
    let place = &Place::of_existing(path)?;
    let gate = OpenCloseLock::enter(place, Intention::Write, options.timeout)?;
    let place = &place.with_owner(Some(gate.state.owner))?;
    // Under the open/close lock no handle joins, and one that is already there would be noticed here.
    let locks = gate.locks(place, Intention::Write)?;
    drop(PresenceLock::alone(&locks)?.ok_or_else(|| locked(place))?);
    let _no_readers = locks.keep_readers_out()?.ok_or_else(|| locked(place))?;
    let path: &Path = place;
    let options = options.within(place).on_damage(on).background(false);
    let file = options.storage.open(path, true);
    let file = file.map_err(|error| Error::io("open", path, error))?;
    let repair = Repair {
        options: &options,
        place,
        path,
        file: &*file,
    };
    let mut report = RepairReport {
        header: repair.header()?,
        ..RepairReport::default()
    };
    repair.set_aside_unfit(&mut report)?;
    repair.superblocks(&mut report, on)?;
    let store = repair.open(&gate, &mut report)?;
    // Closing needs the open/close lock.
    drop(gate);
    let RepairReport {
        pages,
        unlisted,
        segments,
        ..
    } = Repairer::of(&store).repair(on)?;
    (report.pages, report.unlisted) = (pages, unlisted);
    report.segments = segments;
    store.close()?;
    report.pages.extend(store.checkpoints.take_repaired());
    report
        .pages
        .sort_unstable_by_key(|damage| (damage.layer, damage.page));
    Ok(report)
}

pub(super) struct Repair<'a> {
    pub(super) options: &'a OpenOptions,
    pub(super) place: &'a Place,
    pub(super) path: &'a Path,
    pub(super) file: &'a dyn StorageFile,
}

impl Repair<'_> {
    fn length(&self) -> Result<u64> {
        let length = self.file.length();
        length.map_err(|error| Error::io("measure", self.path, error))
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        read_exact_at(self.file, bytes, offset).map_err(|error| Error::io("read", self.path, error))
    }

    /// Writes and syncs.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        write_all_at(self.file, bytes, offset)
            .map_err(|error| Error::io("repair", self.path, error))?;
        let synced = self.file.sync();
        synced.map_err(|error| Error::sync("sync the repair of", self.path, error))
    }

    pub(super) fn exists(&self, generation: u64) -> Result<bool> {
        let log = log_path(self.path, generation);
        let there = self.options.storage.exists(&log);
        there.map_err(|error| Error::io("look for the log", &log, error))
    }

    /// Returns as much of the first page as there is.
    fn read_header(&self) -> Result<Vec<u8>> {
        let mut page = vec![0; self.length()?.min(PAGE_BYTES as u64) as usize];
        self.read(&mut page, 0)?;
        Ok(page)
    }

    /// Restores a damaged header from the newest superblock that has a copy of it. Returns whether it did.
    fn header(&self) -> Result<bool> {
        let length = self.length()?;
        let page = self.read_header()?;
        let error = match Header::decode(&page, length) {
            Ok(_) => return Ok(false),
            Err(error) => error,
        };
        let damaged = matches!(
            error,
            FormatError::NotAStore { .. }
                | FormatError::HeaderChecksum { .. }
                | FormatError::HeaderField { .. }
        );
        let mut newest: Option<(u64, Vec<u8>)> = None;
        if damaged && length >= PAGES_OFFSET {
            for offset in SUPERBLOCK_OFFSETS {
                let mut bytes = vec![0; SUPERBLOCK_BYTES];
                self.read(&mut bytes, offset)?;
                if let Some((sequence, mut copy)) = Superblock::header_copy(&bytes) {
                    copy.resize(PAGE_BYTES, 0);
                    let valid = Header::decode(&copy, length).is_ok();
                    if valid && newest.as_ref().is_none_or(|(held, _)| *held < sequence) {
                        newest = Some((sequence, copy));
                    }
                }
            }
        }
        let Some((_, copy)) = newest else {
            return Err(Error::Format {
                path: self.path.to_owned(),
                source: error,
            });
        };
        self.write(&copy, 0)?;
        Ok(true)
    }

    /// Makes sure that the newest superblock left refers only to logs that exist, and that both superblocks are whole.
    fn superblocks(&self, report: &mut RepairReport, on: OnDamage) -> Result<()> {
        let (_, meta) = identify(self.options, self.path, true)?;
        meta.expect_writable(self.path)?;
        let mut superblock = meta.superblock;
        let lost = superblock.log_expected && !self.exists(superblock.generation)?;
        report.superblock = meta.damaged.is_some();
        if lost {
            let layers = superblock.end_offset();
            if meta.header.growth().is_some() && self.length()? > layers {
                // No superblock or log records this layer any more.
                return Err(Error::Log {
                    path: log_path(self.path, superblock.generation),
                    source: LogError::Missing {
                        generation: superblock.generation,
                    },
                });
            }
            superblock.generation += 1;
            superblock.moment = self.moment_of(superblock.generation, &meta.header)?;
            superblock.partly_merged = None;
            superblock.log_expected = self.exists(superblock.generation)?;
            for layer in &mut superblock.layers {
                layer.keys = layer.keys.max(self.count(layer, &meta.header)?);
            }
            report.rolled_back = true;
        }
        let damaged = self.damaged_sections(&superblock)?;
        let of_sample = |section: &Section| section.kind != SectionKind::Exempt;
        report.sample = superblock
            .sections
            .iter()
            .any(|section| of_sample(section) && (lost || damaged.contains(section)));
        // Exemptions older than the pages would take back keys that were inserted since.
        let given_up = |section: &Section| match of_sample(section) {
            true => report.sample,
            false => lost || damaged.contains(section),
        };
        let exempt = superblock.sections.iter();
        let exempt = exempt.filter(|section| !of_sample(section) && given_up(section));
        report.exemptions = exempt.map(|section| section.count).sum();
        superblock.sections.retain(|section| !given_up(section));
        report.blank = self.blank_holes(&mut superblock, on)?;
        if lost || report.superblock || !damaged.is_empty() || report.blank > 0 {
            superblock.sequence += 1;
            let bytes = superblock.encode(&meta.header);
            self.write(&bytes, SUPERBLOCK_OFFSETS[superblock.slot()])?;
        }
        Ok(())
    }

    /// Lets fully written layers have blank pages if more of their pages are holes than a report lists. No key is seen
    /// in those pages either way, and writing them all could fill any disk. Returns how many pages that are.
    fn blank_holes(&self, superblock: &mut Superblock, on: OnDamage) -> Result<u64> {
        let generation = superblock.generation;
        // A log that is closed describes its layer as it is.
        if on != OnDamage::NeverSeen || self.exists(generation)? || self.exists(generation + 1)? {
            return Ok(0);
        }
        let mut blank = 0;
        for layer in superblock
            .layers
            .iter_mut()
            .filter(|layer| layer.all_written)
        {
            let mut pages = Pages::new(self.file, self.path);
            let (mut at, mut holes) = (layer.first_page, 0);
            while at < layer.end_page() {
                let before = at;
                let hole = pages.hole(at, layer.end_page())?;
                holes += hole;
                at = match hole {
                    0 => pages.end_of_data(at, layer.end_page()),
                    _ => at + hole,
                };
                assert!(
                    before < at && at <= layer.end_page(),
                    "from {before} to {at}"
                );
            }
            if holes > MOST_LISTED {
                layer.all_written = false;
                blank += holes;
            }
        }
        Ok(blank)
    }

    fn damaged_sections(&self, superblock: &Superblock) -> Result<Vec<Section>> {
        let mut damaged = Vec::new();
        for section in &superblock.sections {
            let checked = section.check(self.file);
            if checked
                .map_err(|error| section_error(self.path, error))?
                .is_err()
            {
                damaged.push(*section);
            }
        }
        Ok(damaged)
    }

    /// Returns the approximate number of keys that a layer's good pages hold; at least one, if a page was ever written.
    fn count(&self, layer: &Layer, header: &Header) -> Result<u64> {
        let (binding, cell) = (header.binding(), header.kind.cell());
        let (mut bits, mut pages, mut written) = (0, 0, 0);
        let mut held = Pages::new(self.file, self.path);
        let mut number = layer.first_page;
        while number < layer.end_page() {
            let hole = held.hole(number, layer.end_page())?;
            if hole == 0 {
                let bytes = held.page(number, layer.end_page())?;
                written += u64::from(!page::is_blank(bytes));
                if binding.check(number, bytes).is_ok() {
                    bits += u64::from(page::count_occupied(cell, bytes));
                    pages += 1;
                }
            }
            pages += hole;
            number += hole.max(1);
        }
        let keys = cell.keys_from_set(bits, pages, layer.probes);
        // Add keys in proportion for the pages that can't be counted.
        let keys = keys * layer.pages as f64 / pages.max(1) as f64;
        // Zero would mean that look-ups could skip the layer.
        Ok((keys as u64).max(written.min(1)))
    }
}
