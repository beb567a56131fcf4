//! A checkpoint that leaves the oldest run as it is, and writes what its log changes as a run of its own.

use std::sync::Arc;

use crate::error::Result;
use crate::file::directory_ref::directory_pages;
use crate::file::{DirectoryRef, RunTable};
use crate::fingerprint::changes::{ChangeSource, ChangeStream};
use crate::fingerprint::checkpoint::FingerprintPass;
use crate::fingerprint::directory_file::write_run_directory;
use crate::fingerprint::negative_filter_size::bytes_to_read;
use crate::fingerprint::negative_filter_update::{Merge, NegativeFilterUpdate};
use crate::fingerprint::room_share::RoomShare;
use crate::fingerprint::runs::below::Below;
use crate::fingerprint::runs::levels::{Drain, Least, MergePlan, Merging, RunSize, plan};
use crate::fingerprint::runs::list_writer::ListWriter;
use crate::fingerprint::runs::young_changes::YoungChanges;
use crate::fingerprint::segment::entry::{List, Segment};
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::fingerprint::segment::pass::{Origin, OwnedChanges};
use crate::fingerprint::segment_io::{SegmentWriter, take_for_copies};
use crate::memtable::DecidedBy;
use crate::page_io::checkpoint_trigger::CheckpointTrigger;

/// What a log changes in the runs below it; in a store that forgets, what its last records say.
pub(crate) struct LogChanges<'a> {
    pub(crate) source: ChangeSource<'a>,
    /// The runs to look into where the log doesn't say what is new.
    pub(crate) below: Option<Below<'a>>,
}

impl FingerprintPass<'_> {
    /// Decides what so many changes of a log are merged with.
    pub(crate) fn plan(&self, changes: u64) -> MergePlan {
        // A step of an interrupted checkpoint may have brought some of the changes into the oldest run. Whether one is new
        // there is known only where it is merged.
        let is_begun = self.superblock.partly_merged.is_some();
        if is_begun || self.access.state.merges_all() || self.purges {
            return MergePlan::all();
        }
        let oldest = RunSize::whole(self.directory.keys);
        let young = self.runs.iter().map(RunSize::of);
        let runs: Vec<RunSize> = std::iter::once(oldest).chain(young).collect();
        let options = self.access.options;
        let least = Least {
            run: options.least_run,
            at_once: options.least_at_once,
        };
        plan(&runs, changes, least)
    }

    /// Returns whether there is something to merge if nothing has come.
    pub(crate) fn merges_without_changes(&self) -> bool {
        let state = self.access.state;
        let is_due = state.merges_all() && !self.superblock.runs().is_empty();
        state.is_repairing() || is_due || (self.purges && self.superblock.segment_pages() > 0)
    }

    /// Returns how many entries a checkpoint merges with those of the log.
    pub(crate) fn entries_of(&self, merging: Merging) -> u64 {
        let runs = &self.runs;
        let kept = match merging {
            Merging::Young(count) => runs.len() - count,
            Merging::All => 0,
        };
        let entries = runs[kept..].iter().map(|run| run.directory.keys);
        entries.fold(0, u64::saturating_add)
    }

    /// Merges changes, about as many as `merge` says, with so many of the youngest runs, and writes the run that results,
    /// and slices of runs that drain, without a sync. Returns the oldest run, those above it, and the filter of the set if
    /// there is one.
    pub(crate) fn write_run(
        &mut self,
        source: LogChanges<'_>,
        (count, drains): (usize, &[Drain]),
        merge: &Merge,
    ) -> Result<(DirectoryRef, Option<RunTable>, Option<Arc<NegativeFilter>>)> {
        // Of no other generation are the changes: the runs would skip a log, or have one twice.
        assert_eq!(merge.generation, self.superblock.generation + 1);
        // A log that was merged in part would count twice.
        assert!(self.superblock.partly_merged.is_none());
        let held = std::mem::take(&mut self.held);
        let negative_filter = NegativeFilterUpdate::keeping(merge.version, merge.brought, held);
        let made = match negative_filter.has_filter() {
            true => None,
            false => self.read_filter(merge),
        };
        let negative_filter = negative_filter.with_made(made);
        self.drain_all(drains, merge)?;
        let kept = self.young.len() - count;
        let options = self.access.options;
        let LogChanges { source, below } = source;
        let log = ChangeStream::new(source, self.space, options.chunk_keys());
        let mut changes = RunChanges {
            log: match below.is_some() || self.forgets() {
                true => log.decided_by(DecidedBy::LastRecord),
                false => log.decided_by(DecidedBy::Sum),
            },
            below,
            young: YoungChanges::new(self.listed(), &self.young[kept..], 0)?,
            own: OwnedChanges::default(),
        };
        let [came, went] = self.write_lists(&mut changes, merge, &negative_filter)?;
        let until = self.until(kept);
        let mut runs = self.runs[..kept].to_vec();
        // Whatever came may have gone again.
        let segments = [came, went].concat();
        if let Some((run, _)) = self.name_run(segments, until, merge.generation)? {
            runs.push(run);
        }
        let set_version = self.next_sequence();
        let table = self.table(runs, set_version);
        let directory = DirectoryRef {
            // The oldest run alone is a new set all the same: readers of the one before must not take it for older.
            version: match table {
                Some(_) => self.directory.version,
                None => set_version,
            },
            ..self.directory
        };
        Ok((directory, table, negative_filter.into_filter()))
    }

    /// Returns a filter of all fingerprints below the log, if a stream is long enough to pay for reading them.
    fn read_filter(&self, merge: &Merge) -> Option<NegativeFilter> {
        let streamed = match merge.trigger {
            CheckpointTrigger::FullBuffer => self.pending.note_streamed(merge.brought),
            _ => 0,
        };
        let size = (self.superblock.keys(), self.superblock.segment_pages());
        let bytes = bytes_to_read(self.access.options, merge, size, streamed)?;
        // The next one, after a checkpoint of another handle or a page that is not whole, is to be paid for again.
        self.pending.spend_streamed();
        // Closing waits for this checkpoint, and no look-up follows.
        let is_wanted = || !self.access.state.is_closing();
        self.below().ok()?.read_filter(bytes, &is_wanted)
    }

    /// Writes the segments of both lists.
    fn write_lists(
        &self,
        changes: &mut RunChanges<'_, '_>,
        merge: &Merge,
        negative_filter: &NegativeFilterUpdate,
    ) -> Result<[Vec<Segment>; 2]> {
        let room = RoomShare::new(&self.room, 0);
        let mut out = SegmentWriter::new(self.access, room, (self.binding, merge.generation));
        let target = self.access.options.segment_pages as usize;
        let space = self.space.count();
        let mut lists = [List::Came, List::Went]
            .map(|list| ListWriter::new(list, target, (0..space, self.ages)));
        let at_once = self.access.options.changes_at_once();
        let mut begin = 0;
        for end in (self.space).parts_of(&(0..space), merge.count.div_ceil(at_once)) {
            changes.load(begin, end, negative_filter)?;
            let OwnedChanges { added, removed } = &changes.own;
            for (list, fingerprints) in lists.iter_mut().zip([added, removed]) {
                list.put(fingerprints, &mut out)?;
            }
            begin = end;
        }
        // A range that was left out would be lost with the log.
        assert_eq!(begin, space);
        let [came, went] = lists;
        let segments = [came.finish(&mut out)?, went.finish(&mut out)?];
        out.finish()?;
        Ok(segments)
    }

    /// Writes the directory of the segments of a run whose entries count from `begin` on.
    pub(super) fn write_run_directory(
        &self,
        (segments, begin): (&[Segment], u64),
        generation: u64,
    ) -> Result<DirectoryRef> {
        let pages = directory_pages(segments.len() as u64);
        let file = self.access.file;
        let places = take_for_copies(self.access, RoomShare::new(&self.room, 0), pages)?;
        write_run_directory(
            (&*file.raw, &file.place),
            self.binding,
            (segments, begin),
            places,
            (self.next_sequence(), generation),
        )
    }
}

/// What a new run says, range by range.
struct RunChanges<'s, 'p> {
    log: ChangeStream<'s>,
    below: Option<Below<'s>>,
    /// Those of the runs that it replaces.
    young: YoungChanges<'p>,
    own: OwnedChanges,
}

impl RunChanges<'_, '_> {
    /// Replaces `own` by the entries of a range. The filter has those of the runs that are merged already.
    fn load(&mut self, begin: u64, end: u64, negative_filter: &NegativeFilterUpdate) -> Result<()> {
        self.log.load(begin..end, &mut self.own)?;
        if let Some(below) = &self.below {
            below.keep_changes(&mut self.own)?;
        }
        negative_filter.note(Origin::New, &self.own.added);
        self.young.join(&mut self.own, end)
    }
}
