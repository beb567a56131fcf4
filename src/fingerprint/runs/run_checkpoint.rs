//! A checkpoint that leaves the oldest run as it is, and writes what its log changes as a run of its own.

use std::sync::Arc;

use crate::error::Result;
use crate::file::directory_ref::directory_pages;
use crate::file::{Run, RunTable};
use crate::fingerprint::changes::{ChangeSource, ChangeStream};
use crate::fingerprint::checkpoint::FingerprintPass;
use crate::fingerprint::directory_file::write_run_directory;
use crate::fingerprint::negative_filter_update::{Merge, NegativeFilterUpdate};
use crate::fingerprint::net_list::YoungChanges;
use crate::fingerprint::room_share::RoomShare;
use crate::fingerprint::runs::levels::{Merging, merging};
use crate::fingerprint::segment::entry::{List, Segment};
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::fingerprint::segment::packer::Packer;
use crate::fingerprint::segment::pass::{Origin, OwnedChanges};
use crate::fingerprint::segment::unplaced::UnplacedSegment;
use crate::fingerprint::segment_io::{SegmentWriter, take_for_copies};
use crate::memtable::DecidedBy;

impl FingerprintPass<'_> {
    /// Decides what so many changes of a log are merged with.
    pub(crate) fn merging(&self, changes: u64) -> Merging {
        // A step of an interrupted checkpoint may have brought some of the changes into the oldest run. Whether one is new
        // there is known only where it is merged.
        if self.superblock.partly_merged.is_some() || self.access.state.merges_all() {
            return Merging::All;
        }
        let runs = self.superblock.directories();
        let entries: Vec<u64> = runs.map(|directory| directory.keys).collect();
        merging(&entries, changes, self.access.options.least_run)
    }

    /// Returns whether there is something to merge if nothing has come.
    pub(crate) fn merges_without_changes(&self) -> bool {
        let state = self.access.state;
        state.is_repairing() || (state.merges_all() && !self.superblock.runs().is_empty())
    }

    /// Returns how many entries a checkpoint merges with those of the log.
    pub(crate) fn entries_of(&self, merging: Merging) -> u64 {
        let runs = self.superblock.runs();
        let kept = match merging {
            Merging::Young(count) => runs.len() - count,
            Merging::All => 0,
        };
        let entries = runs[kept..].iter().map(|run| run.directory.keys);
        entries.fold(0, u64::saturating_add)
    }

    /// Merges changes, about as many as `merge` says, with so many of the youngest runs, and writes the run that results,
    /// without a sync. Returns the runs above the oldest one, and the filter of the set if there is one.
    pub(crate) fn write_run(
        &mut self,
        source: ChangeSource<'_>,
        count: usize,
        merge: &Merge,
    ) -> Result<(Option<RunTable>, Option<Arc<NegativeFilter>>)> {
        // Of no other generation are the changes: the runs would skip a log, or have one twice.
        assert_eq!(merge.generation, self.superblock.generation + 1);
        // A log that was merged in part would count twice.
        assert!(self.superblock.partly_merged.is_none());
        let held = std::mem::take(&mut self.held);
        let negative_filter = NegativeFilterUpdate::keeping(merge, held);
        let kept = self.young.len() - count;
        let options = self.access.options;
        let source = ChangeStream::new(source, self.space, options.chunk_keys());
        let mut changes = RunChanges {
            log: source.decided_by(DecidedBy::Sum),
            young: YoungChanges::new(self.listed(), &self.young[kept..], 0)?,
            own: OwnedChanges::default(),
        };
        let [came, went] = self.write_lists(&mut changes, merge, &negative_filter)?;
        let mut runs = self.superblock.runs()[..kept].to_vec();
        let entries_that_went = went.iter().map(|segment| segment.keys).sum();
        let segments = [came, went].concat();
        // Whatever came may have gone again.
        if !segments.is_empty() {
            runs.push(self.write_run_directory(&segments, entries_that_went, merge.generation)?);
        }
        let set_version = self.next_sequence();
        let table = RunTable { set_version, runs };
        let table = (!table.runs.is_empty()).then_some(table);
        Ok((table, negative_filter.into_filter()))
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
        let mut lists = [List::Came, List::Went].map(|list| ListWriter::new(list, target));
        let space = self.space.count();
        let at_once = self.access.options.changes_at_once();
        let parts = merge.count.div_ceil(at_once).clamp(1, space);
        let mut begin = 0;
        for part in 1..=parts {
            let end = (u128::from(space) * u128::from(part) / u128::from(parts)) as u64;
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
        let segments = [came.finish(space, &mut out)?, went.finish(space, &mut out)?];
        out.finish()?;
        Ok(segments)
    }

    fn write_run_directory(&self, segments: &[Segment], went: u64, generation: u64) -> Result<Run> {
        let pages = directory_pages(segments.len() as u64);
        let file = self.access.file;
        let places = take_for_copies(self.access, RoomShare::new(&self.room, 0), pages)?;
        let directory = write_run_directory(
            (&*file.raw, &file.place),
            self.binding,
            (segments, 0),
            places,
            (self.next_sequence(), generation),
        )?;
        Ok(Run {
            directory,
            went,
            begin: 0,
            begun_with: 0,
            arrived: 0,
        })
    }
}

/// What a new run says, range by range.
struct RunChanges<'s, 'p> {
    log: ChangeStream<'s>,
    /// Those of the runs that it replaces.
    young: YoungChanges<'p>,
    own: OwnedChanges,
}

impl RunChanges<'_, '_> {
    /// Replaces `own` by the entries of a range. The filter has those of the runs that are merged already.
    fn load(&mut self, begin: u64, end: u64, negative_filter: &NegativeFilterUpdate) -> Result<()> {
        self.log.load(begin..end, &mut self.own)?;
        negative_filter.note(Origin::New, &self.own.added);
        self.young.join(&mut self.own, end)
    }
}

/// One list of a run that is written.
struct ListWriter {
    list: List,
    /// Pages of a segment, about.
    target: usize,
    packer: Option<Packer>,
    segments: Vec<Segment>,
}

impl ListWriter {
    fn new(list: List, target: usize) -> Self {
        Self {
            list,
            target,
            packer: None,
            segments: Vec::new(),
        }
    }

    /// Packs fingerprints, all above those packed before.
    fn put(&mut self, fingerprints: &[u64], out: &mut SegmentWriter<'_, '_>) -> Result<()> {
        if fingerprints.is_empty() {
            return Ok(());
        }
        let target = self.target;
        let packer = self
            .packer
            .get_or_insert_with(|| Packer::aiming_at(target, 0, Vec::new()));
        packer.put(fingerprints);
        while let Some(draft) = self.packer.as_mut().and_then(Packer::take_full) {
            self.write(draft, out)?;
        }
        Ok(())
    }

    fn finish(mut self, space: u64, out: &mut SegmentWriter<'_, '_>) -> Result<Vec<Segment>> {
        let drafts = self.packer.take().map(|packer| packer.finish(space));
        for draft in drafts.into_iter().flatten() {
            self.write(draft, out)?;
        }
        Ok(self.segments)
    }

    fn write(&mut self, draft: UnplacedSegment, out: &mut SegmentWriter<'_, '_>) -> Result<()> {
        let (segment, _) = out.write(draft)?;
        let list = self.list;
        self.segments.push(Segment { list, ..segment });
        Ok(())
    }
}
