//! Moves the keys of a closed log into the pages, up to the superblock that records it.

use std::sync::Arc;

use crate::engine::checkpoint::section_rewrite::{AddedHashes, SectionRewrite};
use crate::engine::view::ViewCell;
use crate::error::{Error, Result};
use crate::file::superblock::{Commits, WRITERS_ROOM, writers_bytes};
use crate::file::{Layer, Section, SectionKind, Superblock};
use crate::filter::checkpoint::{self as filter, HeldPages};
use crate::generation::log_summary::{LogSummary, scan_sampling};
use crate::generation::sampling::Sampling;
use crate::memtable::Buffer;
use crate::page_io::PageAccess;
use crate::page_io::checkpoint_trigger::CheckpointTrigger;
use crate::page_io::page_checkpoint::ClosedLog;
use crate::storefile::meta::Meta;
use crate::wal::{Cut, LogError, LogFile};

/// Moves the keys of one closed log into the pages.
#[derive(Clone, Copy)]
pub(crate) struct LogApplier<'a> {
    pub(crate) access: PageAccess<'a>,
    pub(crate) views: &'a ViewCell,
    /// Whether no other process can change the buffers.
    pub(crate) is_private: bool,
}

impl LogApplier<'_> {
    /// Moves the keys of a closed and durable log into the pages, and makes the superblock that records this durable.
    /// Keys come from `buffer`, or from the log itself.
    pub(crate) fn apply(
        &self,
        meta: &Meta,
        log: &Arc<LogFile>,
        buffer: Option<&Buffer>,
        trigger: CheckpointTrigger,
    ) -> Result<Superblock> {
        let closed = read_closed(log, meta)?;
        self.apply_closed(meta, log, buffer, closed, trigger)
    }

    /// Does the same with a log that no record closes and that can't be written to. `target` returns the layer for a number
    /// of keys.
    pub(crate) fn apply_unclosed(
        &self,
        meta: &Meta,
        log: &Arc<LogFile>,
        target: impl FnOnce(u64) -> Result<(u32, Option<Layer>)>,
    ) -> Result<Superblock> {
        let found = summary_of(log, meta)?;
        let (layer_index, layer) = target(found.committed_keys)?;
        let cut = Cut {
            last: true,
            layer_index,
            layer,
        };
        self.apply_closed(meta, log, None, (found, cut), CheckpointTrigger::Awaited)
    }

    /// The one order of steps for all kinds. Nothing that a reader sees changes before the superblock at its end.
    fn apply_closed(
        &self,
        meta: &Meta,
        log: &Arc<LogFile>,
        buffer: Option<&Buffer>,
        (mut found, cut): (LogSummary, Cut),
        trigger: CheckpointTrigger,
    ) -> Result<Superblock> {
        let access = self.access;
        filter::expect_memory(access)?;
        let log_keys = buffer.map_or_else(|| access.options.log_keys(), |_| 0);
        let buffer = self.believed(buffer, log, &found, &meta.superblock)?;
        let added = AddedHashes::take(&mut found);
        let closed = ClosedLog {
            access,
            meta,
            log,
            found,
            cut,
            buffer,
            log_keys,
            trigger,
            is_private: self.is_private,
        };
        let held = HeldPages {
            layers: &|| self.views.cell.load().filter.layers().len(),
            negative_filter: &|| self.views.cell.load().filter.held_filter(),
            pending_filter: &self.views.pending_filter,
        };
        let mut pages = filter::begin(&closed, &held)?;
        // Do this before the pages: if there is no room for the sections, nothing has begun.
        let rewrite = SectionRewrite {
            options: access.options,
            file: access.file,
            meta,
            generation: log.generation + 1,
            taken: &pages.taken(),
        };
        let sections = rewrite.after(log, added, pages.inserted())?;
        pages.write(&sections)?;
        pages.publish(superblock_after(&closed, sections)?)
    }

    /// Returns the buffer, if it holds what its log does, as far as that must be known now. The log is the record of
    /// what was acknowledged. A buffer that differs from it was damaged, and the log is synced and used instead.
    fn believed<'b>(
        &self,
        buffer: Option<&'b Buffer>,
        log: &LogFile,
        found: &LogSummary,
        old: &Superblock,
    ) -> Result<Option<&'b Buffer>> {
        let has_exemptions = found.exempt > 0 || old.section(SectionKind::Exempt).is_some();
        let agreed = buffer.filter(|buffer| self.agrees(buffer, found, has_exemptions));
        if agreed.is_none() && buffer.is_some() {
            let synced = log.file.sync();
            synced.map_err(|error| Error::sync("sync the log", &log.path, error))?;
        }
        Ok(agreed)
    }

    /// Returns whether the closed buffer holds what its log does, as far as that must be known before any of it is used
    /// for exemptions. A private buffer always does.
    fn agrees(&self, buffer: &Buffer, found: &LogSummary, has_exemptions: bool) -> bool {
        if self.is_private {
            return true;
        }
        let header = &self.access.file.header;
        let must_agree = has_exemptions || filter::must_agree_before(header);
        buffer.tail().end == found.end.end
            && (!must_agree || buffer.closed_digest() == found.digest)
    }
}

/// Reads what a closed log holds, and what its last record says is to be done.
fn read_closed(log: &LogFile, meta: &Meta) -> Result<(LogSummary, Cut)> {
    let found = summary_of(log, meta)?;
    match found.cut.clone().filter(|cut| found.fits(cut, meta)) {
        Some(cut) => Ok((found, cut)),
        None => Err(Error::Log {
            path: log.path.clone(),
            source: LogError::Unsealed { end: found.end.end },
        }),
    }
}

fn summary_of(log: &LogFile, meta: &Meta) -> Result<LogSummary> {
    let sampled = meta.superblock.section(SectionKind::Sample);
    let sampling = sampled.map(|section| Sampling::of(&meta.header, section));
    scan_sampling(log, &meta.header, sampling)
}

/// Returns the superblock after the checkpoint of a log, without what its pages are.
fn superblock_after(closed: &ClosedLog<'_>, sections: Vec<Section>) -> Result<Superblock> {
    let (old, log) = (&closed.meta.superblock, closed.log);
    Ok(Superblock {
        sequence: old.sequence + 1,
        generation: log.generation + 1,
        log_expected: !closed.cut.last,
        commit_sequence: old.commit_sequence.max(closed.found.commit_sequence),
        commits: commits_after(old, &closed.found.commits)?,
        layers: Vec::new(),
        directory: None,
        partly_merged: None,
        sections,
        moment: log.next_moment(),
    })
}

/// Returns the writers' last commits after the checkpoint of a log that holds the commits `new`.
fn commits_after(old: &Superblock, new: &Commits) -> Result<Commits> {
    let mut commits = old.commits.clone();
    commits.extend(new.clone());
    if writers_bytes(&commits) > WRITERS_ROOM as u64 {
        return Err(Error::TooManyWriters {
            expected: WRITERS_ROOM,
            got: writers_bytes(&commits) as usize,
        });
    }
    Ok(commits)
}
