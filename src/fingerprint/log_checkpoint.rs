//! How a closed log's changes go into the segments of a store of fingerprints.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::{DirectoryRef, RunTable, Section, SectionKind, Superblock};
use crate::fingerprint::changes::{ChangeSource, ChangeStream};
use crate::fingerprint::checkpoint::FingerprintPass;
use crate::fingerprint::directory_file::expect_directory;
use crate::fingerprint::negative_filter_update::{HeldFilter, Merge};
use crate::fingerprint::pending_filter::PendingFilter;
use crate::fingerprint::runs::forgotten_runs::LogTime;
use crate::fingerprint::runs::levels::{MergePlan, Merging};
use crate::fingerprint::runs::run_checkpoint::LogChanges;
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::fingerprint::segment::pass::OwnedChanges;
use crate::memtable::{ClosedKeys, DecidedBy};
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page_io::page_checkpoint::{
    ClosedLog, InsertedKeys, InsertedRemover, PageCheckpoint, Written,
};

/// The checkpoint of a store of fingerprints.
pub(crate) struct FingerprintCheckpoint<'a> {
    closed: &'a ClosedLog<'a>,
    pass: FingerprintPass<'a>,
    inserted: InsertedFingerprints<'a>,
    /// The directory that the superblock after the checkpoint names: the one from before until `write` makes another.
    directory: DirectoryRef,
    /// The runs that it names above that one: those from before until `write` merges them.
    runs: Option<RunTable>,
    /// The negative filter of that directory's segments, if the checkpoint made one.
    negative_filter: Option<Arc<NegativeFilter>>,
}

impl<'a> FingerprintCheckpoint<'a> {
    /// `filters` are where the negative filter goes before it is published, and the one that this handle looks into.
    pub(crate) fn begin(
        closed: &'a ClosedLog<'a>,
        filters: (&'a PendingFilter, HeldFilter),
    ) -> Result<Self> {
        let (file, meta) = (closed.access.file, closed.meta);
        let (directory, space) =
            expect_directory(&file.place, &meta.superblock, file.header.space())?;
        let source = change_source(closed);
        let time = LogTime {
            clock: closed.clock(),
            forgets: closed.forgets(),
        };
        Ok(Self {
            closed,
            pass: FingerprintPass::begin(closed.access, filters, (meta, time), directory, space)?,
            inserted: InsertedFingerprints { source, space },
            directory,
            runs: meta.superblock.runs.clone(),
            negative_filter: None,
        })
    }

    /// Returns whether keys are exempt, or were before this log.
    fn has_exemptions(&self) -> bool {
        let before = self.closed.meta.superblock.section(SectionKind::Exempt);
        self.closed.found.exempt > 0 || before.is_some()
    }
}

impl PageCheckpoint for FingerprintCheckpoint<'_> {
    fn taken(&self) -> Vec<Range<u64>> {
        self.pass.named()
    }

    fn inserted(&self) -> &dyn InsertedKeys {
        &self.inserted
    }

    fn write(&mut self, sections: &[Section]) -> Result<Written> {
        match self.write_runs(sections) {
            // What no log has may lead to damage, or take the last room.
            Err(_) if !self.inserted.source.is_as_logged() => Ok(Written::Otherwise),
            // The keys that came need not wait for pages that can't be read, or for room for all of them.
            Err(Error::Format { .. } | Error::NoSpace { .. }) if self.pass.purges => {
                self.pass.give_purge_up()?;
                self.write_runs(sections)
            }
            written => written,
        }
    }

    fn publish(&mut self, superblock: Superblock) -> Result<Superblock> {
        let superblock = Superblock {
            // The steps of this checkpoint may have written superblocks of their own.
            sequence: self.pass.next_sequence(),
            directory: Some(self.directory),
            earliest: self.pass.earliest,
            runs: self.runs.take(),
            ..superblock
        };
        self.pass.publish(superblock, self.negative_filter.take())
    }
}

impl FingerprintCheckpoint<'_> {
    fn write_runs(&mut self, sections: &[Section]) -> Result<Written> {
        self.pass.spare(sections);
        let closed = self.closed;
        let count = closed.found.committed_keys;
        self.directory = self.pass.directory;
        if count == 0 && !self.pass.merges_without_changes() {
            if !self.pass.is_as_begun {
                self.runs = self.pass.table_of_rest();
            }
            return Ok(Written::AsLogged);
        }
        let mut plan = self.pass.plan(count);
        let mut below = None;
        if plan.merging != Merging::All && self.has_exemptions() && !self.pass.forgets() {
            // Another hash of a fingerprint may have inserted it, so the log doesn't say whether it is new. Without address
            // space to look, merging tells.
            match self.pass.below() {
                Err(Error::OutOfMemory { .. }) => plan = MergePlan::all(),
                found => below = Some(found?),
            }
        }
        let merge = Merge {
            directory: self.directory,
            version: self.pass.set_version(),
            count: count.saturating_add(self.pass.entries_of(plan.merging)),
            brought: count,
            generation: closed.log.generation + 1,
            trigger: closed.trigger,
        };
        let source = self.inserted.source.clone();
        let decided_by = match &source {
            // Only keys whose sum changes something can be compared with the log.
            ChangeSource::Closed {
                logged: Some(_), ..
            } if !self.has_exemptions() && !self.pass.forgets() => DecidedBy::Sum,
            // A key that went and came again in a store that forgets is younger than the one below.
            _ => DecidedBy::LastRecord,
        };
        match plan.merging {
            Merging::Young(runs) => {
                let source = LogChanges { source, below };
                let merged = (runs, &plan.drains[..]);
                (self.directory, self.runs, self.negative_filter) =
                    self.pass.write_run(source, merged, &merge)?;
                if !self.inserted.source.is_as_logged() {
                    return Ok(Written::Otherwise);
                }
            }
            Merging::All => {
                let Some(merged) = self.pass.run((source, decided_by), &merge)? else {
                    return Ok(Written::Otherwise);
                };
                (self.directory, self.negative_filter) = merged;
                self.runs = None;
            }
        }
        Ok(Written::AsLogged)
    }
}

fn change_source<'a>(closed: &ClosedLog<'a>) -> ChangeSource<'a> {
    match closed.buffer {
        Some(buffer) => ChangeSource::Closed {
            keys: ClosedKeys::of(buffer),
            logged: (!closed.is_private).then_some(closed.found.digest),
        },
        None => ChangeSource::Log {
            log: Arc::clone(closed.log),
            committed: closed.found.committed.clone(),
            count: closed.found.committed_keys,
        },
    }
}

/// All keys of each fingerprint whose last record is an insert.
struct InsertedFingerprints<'a> {
    source: ChangeSource<'a>,
    space: FingerprintSpace,
}

impl InsertedKeys for InsertedFingerprints<'_> {
    fn count_in_log(&self) -> u64 {
        match &self.source {
            ChangeSource::Log { count, .. } => *count,
            ChangeSource::Closed { .. } | ChangeSource::Nothing => 0,
        }
    }

    fn remover(&self, most: u64) -> InsertedRemover<'_> {
        if let ChangeSource::Closed { keys, .. } = &self.source {
            return keys.remover(most);
        }
        let space = self.space;
        let mut stream = ChangeStream::new(self.source.clone(), space, most);
        Box::new(move |range: RangeInclusive<u64>, hashes| {
            // All hashes of the fingerprints at both ends.
            let first = space.fingerprint(*range.start());
            let last = space.fingerprint(*range.end());
            let mut changes = OwnedChanges::default();
            stream.load(first..space.behind(last), &mut changes)?;
            let comes = |hash| {
                let fingerprint = space.fingerprint(hash);
                changes.added.binary_search(&fingerprint).is_ok()
            };
            hashes.retain(|hash| !comes(*hash));
            Ok(())
        })
    }
}
