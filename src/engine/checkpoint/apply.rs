//! Moves the keys of a closed log into the pages, up to the superblock that records it.

use std::ops::Range;
use std::sync::Arc;

use crate::bloom::checkpoint::BloomPass;
use crate::bloom::chunk_writer::CheckpointTask;
use crate::bloom::counting_checkpoint::CountingPass;
use crate::bloom::layer_pages::LayerPages;
use crate::engine::checkpoint::section_rewrite::{Inserted, SectionRewrite};
use crate::engine::view::ViewCell;
use crate::error::{Error, Result};
use crate::file::layout::FIRST_PAGE;
use crate::file::superblock::{Commits, WRITERS_ROOM, writers_bytes};
use crate::file::{FormatError, Layer, SectionKind, Superblock};
use crate::fingerprint::changes::ChangeSource;
use crate::fingerprint::checkpoint::FingerprintPass;
use crate::fingerprint::directory_file::expect_directory;
use crate::fingerprint::negative_filter_update::Merge;
use crate::generation::count_stream::NetSource;
use crate::generation::hash_stream::KeySource;
use crate::generation::log_summary::{LogSummary, scan_sampling};
use crate::generation::sampling::Sampling;
use crate::memtable::{Buffer, ClosedKeys, Digest};
use crate::page_io::PageAccess;
use crate::page_io::checkpoint_trigger::Occasion;
use crate::storefile::meta::Meta;
use crate::wal::{Cut, LogError, LogFile, RecordKind};

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
        occasion: Occasion,
    ) -> Result<Superblock> {
        let closed = read_closed(log, meta)?;
        self.apply_closed(meta, log, buffer, closed, occasion)
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
        self.apply_closed(meta, log, None, (found, cut), Occasion::Awaited)
    }

    fn apply_closed(
        &self,
        meta: &Meta,
        log: &Arc<LogFile>,
        buffer: Option<&Buffer>,
        closed: (LogSummary, Cut),
        occasion: Occasion,
    ) -> Result<Superblock> {
        match self.access.file.header.space() {
            Some(_) => self.apply_changes(meta, log, buffer, closed, occasion),
            None => self.apply_keys(meta, log, buffer, closed, occasion),
        }
    }

    fn apply_keys(
        &self,
        meta: &Meta,
        log: &Arc<LogFile>,
        buffer: Option<&Buffer>,
        (mut found, cut): (LogSummary, Cut),
        occasion: Occasion,
    ) -> Result<Superblock> {
        self.access
            .expect_memory(self.access.options.chunk_pages())?;
        let file = self.access.file;
        let old = &meta.superblock;
        let log_keys = buffer.map_or_else(|| self.access.options.log_keys(), |_| 0);
        let buffer = self.believed(buffer, log, &found, old)?;
        let mut layers = old.layers.clone();
        let target = self.target(&cut)?;
        let count = found.committed_keys + found.removed;
        if count > 0 {
            layers.truncate(cut.layer_index as usize);
            layers.push(target);
            self.make_room(target.end_offset())?;
        }
        let of_table = buffer.filter(|_| !file.header.kind.counts());
        let keys = key_source(log, of_table, &found);
        let nets = match (file.header.kind.counts(), buffer) {
            (true, Some(buffer)) => Some(NetSource::Buffer(buffer)),
            (true, None) => Some(NetSource::Log { log, count }),
            (false, _) => None,
        };
        let inserted = nets.map_or(Inserted::Keys(&keys), Inserted::Nets);
        // Do this before the pages: if there is no room for the sections, nothing has begun.
        let rewrite = SectionRewrite {
            options: self.access.options,
            file,
            meta,
            generation: log.generation + 1,
            taken: &self.taken(&layers),
        };
        let sections = rewrite.after(log, &mut found, inserted)?;
        if count > 0 {
            let layer = (cut.layer_index, target);
            let workers = occasion.workers(self.access.options);
            let task = CheckpointTask::new(meta, log.generation, layer, count, workers);
            let task = task.with_log_keys(log_keys);
            let layer = self.write_pages(&task, (&keys, nets), log, &found)?;
            layers.pop();
            layers.push(layer);
        } else if sections != old.sections {
            file.sync("sync the sections of")?;
        }
        let superblock = Superblock {
            layers,
            sections,
            ..superblock_after(old, log, found, &cut)?
        };
        self.try_mapping(&superblock)?;
        file.write_superblock(&superblock)?;
        Ok(superblock)
    }

    /// Returns the layer that a cut names. That there is one was checked when the log was read.
    fn target(&self, cut: &Cut) -> Result<Layer> {
        cut.layer.ok_or_else(|| {
            self.access.file.format_error(FormatError::HeaderField {
                field: "kind",
                expected: "a log that is closed for a layer",
                got: self.access.file.header.kind.to_string(),
            })
        })
    }

    /// Returns the pages of layers and journal.
    fn taken(&self, layers: &[Layer]) -> Vec<Range<u64>> {
        let mut taken: Vec<_> = layers.iter().map(Layer::numbers).collect();
        if self.access.file.header.kind.counts()
            && let Some(layer) = layers.first()
        {
            taken.push(FIRST_PAGE..layer.first_page);
        }
        taken
    }

    /// Does what [`apply`](Self::apply) does in a store of fingerprints.
    fn apply_changes(
        &self,
        meta: &Meta,
        log: &Arc<LogFile>,
        buffer: Option<&Buffer>,
        (mut found, cut): (LogSummary, Cut),
        occasion: Occasion,
    ) -> Result<Superblock> {
        let file = self.access.file;
        let old = &meta.superblock;
        let buffer = self.believed(buffer, log, &found, old)?;
        let (directory, space) = expect_directory(&file.place, old, file.header.space())?;
        // Keeps no view: its map would count twice.
        let held = self.views.cell.load().filter.held_filter();
        let filters = (&self.views.pending_filter, held);
        let mut pass = FingerprintPass::begin(self.access, filters, meta, directory, space)?;
        let source = change_source(log, buffer, &found);
        let rewrite = SectionRewrite {
            options: self.access.options,
            file,
            meta,
            generation: log.generation + 1,
            taken: &pass.named(),
        };
        let sections = rewrite.after(log, &mut found, Inserted::Changes(&source, space))?;
        pass.spare(&sections);
        let count = found.committed_keys;
        let (directory, absence) = match count {
            0 if !self.access.state.is_repairing() => (directory, None),
            _ => {
                let merge = Merge {
                    directory,
                    count,
                    generation: log.generation + 1,
                    occasion,
                };
                pass.run(source, &merge)?
            }
        };
        let superblock = Superblock {
            sequence: pass.next_sequence(),
            directory: Some(directory),
            sections,
            ..superblock_after(old, log, found, &cut)?
        };
        pass.publish(superblock, absence)
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
        let digest = || match self.access.file.header.kind.counts() {
            true => buffer.net_digest(0..=u64::MAX),
            false => ClosedKeys::of(buffer).digest(),
        };
        // A segment can't be merged again from the log if the buffer turns out to differ.
        let must_agree = has_exemptions || self.access.file.header.space().is_some();
        buffer.tail().end == found.end.end && (!must_agree || digest() == found.digest)
    }

    /// Extends the file for a new layer.
    fn make_room(&self, end: u64) -> Result<()> {
        let file = self.access.file;
        let failed = |error| Error::io("make room for a layer in", &file.place, error);
        if file.raw.length().map_err(failed)? < end {
            file.raw.set_length(end).map_err(failed)?;
        }
        Ok(())
    }

    /// Writes the keys into the pages of their layer, durably, and returns the updated layer.
    fn write_pages(
        &self,
        task: &CheckpointTask,
        (keys, nets): (&KeySource<'_>, Option<NetSource<'_>>),
        log: &Arc<LogFile>,
        found: &LogSummary,
    ) -> Result<Layer> {
        let PageAccess { file, shared, .. } = self.access;
        let mut layer = task.layer;
        shared.set_torn(task.torn.clone());
        match nets {
            Some(nets) => self.count(task, nets, log, found, &mut layer)?,
            None => self.set_bits(task, keys, log, found, &mut layer)?,
        }
        file.sync("sync the pages of")?;
        shared.window().publish(0..0);
        shared.set_torn(0..0);
        Ok(layer)
    }

    /// Sets the bits of a generation's keys in the pages of a layer. Uses the log's keys if the buffer returned
    /// different ones.
    fn set_bits(
        &self,
        task: &CheckpointTask,
        keys: &KeySource<'_>,
        log: &Arc<LogFile>,
        found: &LogSummary,
        layer: &mut Layer,
    ) -> Result<()> {
        let before = *layer;
        let taken = self.run_bloom_pass(task, keys, layer)?;
        let is_sure = !matches!(keys, KeySource::Closed(_)) || self.is_private;
        if is_sure || taken == found.digest {
            return Ok(());
        }
        // Bits are only ever added, so the pass can run again, as after an interruption.
        *layer = before;
        let meta = self.access.file.read_meta()?;
        let (target, workers) = ((task.layer_index, task.layer), task.workers);
        let task = CheckpointTask::new(&meta, task.generation, target, task.count, workers);
        self.run_bloom_pass(&task, &key_source(log, None, found), layer)?;
        Ok(())
    }

    /// Sets the bits of keys in the pages of a layer, and returns a digest of the keys.
    fn run_bloom_pass(
        &self,
        task: &CheckpointTask,
        keys: &KeySource<'_>,
        layer: &mut Layer,
    ) -> Result<Digest> {
        let mut pass = BloomPass::new(self.access, task, keys);
        // Until the pass is repeated, the pages it named last may be torn.
        let passed = pass
            .run()
            .inspect_err(|_| self.access.shared.set_torn(pass.named()))?;
        layer.keys = layer.keys.saturating_add(passed.keys);
        layer.all_written |= passed.all_written;
        Ok(passed.taken)
    }

    /// Counts the inserts and removes of a generation in the pages of a counting store.
    fn count(
        &self,
        task: &CheckpointTask,
        nets: NetSource<'_>,
        log: &LogFile,
        found: &LogSummary,
        layer: &mut Layer,
    ) -> Result<()> {
        let count = task.count;
        let from_log = NetSource::Log { log, count };
        let mut pass = CountingPass::new(self.access, task)?;
        pass.run(nets, from_log, found.digest, self.is_private)
            .inspect_err(|_| self.access.shared.set_torn(pass.named()))?;
        let keys = layer.keys.saturating_add(found.committed_keys);
        layer.keys = keys.saturating_sub(found.removed);
        Ok(())
    }

    /// Maps the layers that no view has mapped yet. A failure to map them must show before the superblock is written,
    /// not after.
    fn try_mapping(&self, superblock: &Superblock) -> Result<()> {
        let file = self.access.file;
        let view = self.views.cell.load();
        let held = view.filter.layers();
        for (index, layer) in (0..).zip(&superblock.layers).skip(held.len()) {
            LayerPages::map(index, layer, file.header.binding(), &*file.raw)
                .map_err(|error| Error::io("map a layer of", &file.place, error))?;
        }
        Ok(())
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
fn superblock_after(
    old: &Superblock,
    log: &LogFile,
    found: LogSummary,
    cut: &Cut,
) -> Result<Superblock> {
    Ok(Superblock {
        sequence: old.sequence + 1,
        generation: log.generation + 1,
        log_expected: !cut.last,
        commit_sequence: old.commit_sequence.max(found.commit_sequence),
        commits: commits_after(old, found.commits)?,
        layers: Vec::new(),
        directory: None,
        partly_merged: None,
        sections: Vec::new(),
        moment: log.next_moment(),
    })
}

/// Returns the writers' last commits after the checkpoint of a log that holds the commits `new`.
fn commits_after(old: &Superblock, new: Commits) -> Result<Commits> {
    let mut commits = old.commits.clone();
    commits.extend(new);
    if writers_bytes(&commits) > WRITERS_ROOM as u64 {
        return Err(Error::TooManyWriters {
            expected: WRITERS_ROOM,
            got: writers_bytes(&commits) as usize,
        });
    }
    Ok(commits)
}

fn change_source<'a>(
    log: &Arc<LogFile>,
    buffer: Option<&'a Buffer>,
    found: &LogSummary,
) -> ChangeSource<'a> {
    match buffer {
        Some(buffer) => ChangeSource::Closed(ClosedKeys::of(buffer)),
        None => ChangeSource::Log {
            log: Arc::clone(log),
            committed: found.committed.clone(),
            count: found.committed_keys,
        },
    }
}

fn key_source<'a>(
    log: &Arc<LogFile>,
    buffer: Option<&'a Buffer>,
    found: &LogSummary,
) -> KeySource<'a> {
    match buffer {
        Some(buffer) => KeySource::Closed(ClosedKeys::of(buffer)),
        None => KeySource::Log {
            log: Arc::clone(log),
            kind: RecordKind::Insert,
            committed: found.committed.clone(),
            count: found.committed_keys,
        },
    }
}
