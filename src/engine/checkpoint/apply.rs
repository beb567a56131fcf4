//! Moves the keys of a closed log into the pages, up to the superblock that records it.

use std::sync::Arc;

use crate::engine::checkpoint::section_rewrite::{AddedHashes, SectionRewrite};
use crate::engine::view::ViewCell;
use crate::error::{Error, Result};
use crate::file::section::are_in_order;
use crate::file::superblock::{Commits, WRITERS_ROOM, writers_bytes};
use crate::file::{Layer, Section, SectionKind, Superblock};
use crate::filter::checkpoint::{self as filter, HeldPages};
use crate::generation::log_summary::{LogSummary, scan_sampling};
use crate::generation::sampling::Sampling;
use crate::memtable::Buffer;
use crate::page_io::PageAccess;
use crate::page_io::checkpoint_trigger::CheckpointTrigger;
use crate::page_io::page_checkpoint::{ClosedLog, Written};
use crate::storefile::meta::Meta;
use crate::wal::file::RECORDS_OFFSET;
use crate::wal::{Cut, LogError, LogFile};

/// A buffer with at most the keys it has room for divided by this, or a log with at most the buffer's bytes divided by
/// this, is small.
const FEW_KEYS_SHARE: u64 = 256;
const FEW_BYTES_SHARE: u64 = 16;

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
        let log_keys = buffer.map_or_else(|| self.access.options.log_keys(), |_| 0);
        self.apply_closed((meta, log), buffer, closed, trigger, log_keys)
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
            forgets: false,
            layer_index,
            layer,
        };
        let log_keys = self.access.options.log_keys();
        let trigger = CheckpointTrigger::Awaited;
        self.apply_closed((meta, log), None, (found, cut), trigger, log_keys)
    }

    /// The one order of steps for all kinds. Nothing that a reader sees changes before the superblock at its end.
    fn apply_closed(
        &self,
        (meta, log): (&Meta, &Arc<LogFile>),
        buffer: Option<&Buffer>,
        (mut found, cut): (LogSummary, Cut),
        trigger: CheckpointTrigger,
        log_keys: u64,
    ) -> Result<Superblock> {
        let access = self.access;
        // A log is applied once, and none before those that are older.
        assert_eq!(log.generation, meta.superblock.generation);
        filter::expect_memory(access)?;
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
        // No reader takes a superblock with others, so no page may be written for one.
        assert!(are_in_order(&sections), "{sections:?}");
        if pages.write(&sections)? == Written::Otherwise {
            drop(pages);
            sync(log)?;
            let meta = access.file.read_meta()?;
            let closed = read_closed(log, &meta)?;
            // The buffer is still in memory.
            return self.apply_closed((&meta, log), None, closed, trigger, log_keys);
        }
        let before = meta.superblock.sequence;
        let published = pages.publish(superblock_after(&closed, sections)?)?;
        // Only after this superblock may the log go.
        assert_eq!(published.generation, log.generation + 1);
        assert!(published.sequence > before, "{before}, {published:?}");
        Ok(published)
    }

    /// Returns the buffer, if the keys are to come from it: there are many of them, and it holds what its log does, as far
    /// as that must be known now. The log is the record of what was acknowledged. A buffer that differs from it was damaged,
    /// and the log is synced and used instead.
    fn believed<'b>(
        &self,
        buffer: Option<&'b Buffer>,
        log: &LogFile,
        found: &LogSummary,
        old: &Superblock,
    ) -> Result<Option<&'b Buffer>> {
        if buffer.is_some_and(|buffer| self.is_nearly_empty(buffer, found)) {
            return Ok(None);
        }
        let has_exemptions = found.exempt > 0 || old.section(SectionKind::Exempt).is_some();
        // A key that went and came again is there as before, but for its age.
        let last_counts = has_exemptions || self.access.file.header.window.is_some();
        let agreed = buffer.filter(|buffer| self.agrees(buffer, found, last_counts));
        if agreed.is_none() && buffer.is_some() {
            sync(log)?;
        }
        Ok(agreed)
    }

    /// Returns whether a closed buffer has so few keys that it takes longer to walk over it than to read its log again,
    /// whose records lie next to each other. The log is durable up to the end that the buffer states.
    fn is_nearly_empty(&self, buffer: &Buffer, found: &LogSummary) -> bool {
        let end = found.end.end;
        buffer.tail().end == end
            && end.saturating_sub(RECORDS_OFFSET) <= buffer.bytes() / FEW_BYTES_SHARE
            && found.keys <= buffer.limit() / FEW_KEYS_SHARE
            // One window on the log has them all.
            && found.keys <= self.access.options.chunk_keys()
    }

    /// Returns whether the closed buffer holds what its log does, as far as that must be known before any of it is used.
    /// Checkpoints compare what they have taken, but one that counts can't be repeated. With exemptions, and in stores that
    /// forget, the last record of a key counts: the digest doesn't show that of a key that came and went.
    fn agrees(&self, buffer: &Buffer, found: &LogSummary, last_counts: bool) -> bool {
        if self.is_private {
            return true;
        }
        let inserts_alone = || i64::try_from(found.committed_keys) == Ok(found.digest.net());
        buffer.tail().end == found.end.end
            && (!last_counts || inserts_alone() && buffer.closed_digest() == found.digest)
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

fn sync(log: &LogFile) -> Result<()> {
    let synced = log.file.sync();
    synced.map_err(|error| Error::sync("sync the log", &log.path, error))
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
        clock: old.clock.max(closed.clock().unwrap_or(0)),
        earliest: 0,
        runs: None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::checkpoint::run::Checkpointer;
    use crate::memtable::limit_of;
    use crate::testing::{LEAST_BUFFER, Options};
    use crate::{Kind, Store};

    /// Returns whether a checkpoint of what the store's buffer holds would walk over that.
    fn walks(store: &Store) -> bool {
        let engine = &store.engine;
        let active = Arc::clone(&engine.views.cell.load().active);
        let log = engine.logs.of(&active).unwrap();
        let meta = engine.file.read_meta().unwrap();
        let found = summary_of(log, &meta).unwrap();
        let applier = Checkpointer::of(engine).applier();
        let buffer = applier.believed(Some(&active.buffer), log, &found, &meta.superblock);
        buffer.unwrap().is_some()
    }

    fn insert(store: &Store, count: u64) {
        let keys: Vec<u64> = (0..count).collect();
        assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
    }

    #[test]
    fn few_keys_come_from_the_log_and_many_from_the_buffer() {
        const BUFFER: u64 = 4 << 20;
        let most = limit_of(BUFFER / 16 * 7) / FEW_KEYS_SHARE;
        assert!(most > 100, "{most}");
        for kind in [
            Kind::Bloom,
            Kind::Counting,
            Kind::Scalable,
            Kind::Fingerprint,
        ] {
            for exclusive in [false, true] {
                for (count, is_walked) in [(1, false), (most, false), (most + 1, true)] {
                    let folder = tempfile::tempdir().unwrap();
                    let options = Options::new().kind(kind).capacity(100_000).fpr(1e-9);
                    let options = options.buffer(BUFFER).exclusive(exclusive);
                    let store = options.create(folder.path().join("store")).unwrap();
                    insert(&store, count);
                    assert_eq!(walks(&store), is_walked, "{kind} {exclusive} {count}");
                }
            }
        }
    }

    /// To read it takes longer than to walk over a small buffer.
    #[test]
    fn few_keys_of_a_long_log_come_from_the_buffer() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(1000).buffer(LEAST_BUFFER);
        let options = options.transactional(true);
        for (commits, is_walked) in [(1, false), (200, true)] {
            let path = folder.path().join(commits.to_string());
            let store = options.create(path).unwrap();
            insert(&store, 5);
            for _ in 0..commits {
                store.commit().unwrap();
            }
            assert_eq!(walks(&store), is_walked, "{commits}");
        }
    }

    /// Even if it has few keys: where the log ends is not known then, nor how far it was synced.
    #[test]
    fn a_buffer_that_states_another_end_is_not_used() {
        for count in [5, 2000] {
            let folder = tempfile::tempdir().unwrap();
            let options = Options::new().capacity(10_000).buffer(1 << 20);
            let store = options.create(folder.path().join("store")).unwrap();
            insert(&store, count);
            let active = Arc::clone(&store.engine.views.cell.load().active);
            let log = store.engine.logs.of(&active).unwrap();
            let meta = store.engine.file.read_meta().unwrap();
            let found = summary_of(log, &meta).unwrap();
            let mut tail = active.buffer.tail();
            tail.end += 8;
            active.buffer.set_tail(tail);
            let applier = Checkpointer::of(&store.engine).applier();
            assert!(!applier.is_nearly_empty(&active.buffer, &found));
            let used = applier.believed(Some(&active.buffer), log, &found, &meta.superblock);
            assert!(used.unwrap().is_none());
        }
    }
}
