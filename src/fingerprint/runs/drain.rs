//! A run drains into the one below, slice by slice of the range of fingerprints.

use std::ops::Range;
use std::sync::Mutex;

use crate::error::{Error, Result};
use crate::file::run_table::Draining;
use crate::file::{DirectoryRef, Run};
use crate::fingerprint::changes::{ChangeSource, ChangeStream};
use crate::fingerprint::checkpoint::{FingerprintPass, Step};
use crate::fingerprint::fingerprint_list::{FingerprintList, ListedFile};
use crate::fingerprint::negative_filter_update::{Merge, NegativeFilterUpdate};
use crate::fingerprint::net_list::count_from;
use crate::fingerprint::room_share::RoomShare;
use crate::fingerprint::runs::levels::Drain;
use crate::fingerprint::runs::list_writer::ListWriter;
use crate::fingerprint::runs::run_directories::RunSegments;
use crate::fingerprint::runs::young_changes::YoungChanges;
use crate::fingerprint::segment::entry::{List, Segment};
use crate::fingerprint::segment::pass::OwnedChanges;
use crate::fingerprint::segment_io::SegmentWriter;
use crate::page::ages::Ages;
use crate::sys::lock;

/// A run above the oldest one, and its segments.
type NamedRun = (Run, RunSegments);

impl FingerprintPass<'_> {
    /// Brings runs into those below as far as a plan says, in whole segments, without a sync.
    pub(super) fn drain_all(&mut self, drains: &[Drain], merge: &Merge) -> Result<()> {
        // The youngest first: a run that is empty then leaves the numbers of the older ones as they are.
        assert!(drains.is_sorted_by(|one, next| one.run > next.run + 1));
        for drain in drains {
            let room = lock(&self.room).clone();
            match self.drain(drain, merge) {
                // What is damaged there, or has no room, has nothing to do with the keys that came. Look-ups and `verify` tell
                // damage, and the next checkpoint tries again. Nothing names what was written: on a full disk, the keys that
                // came may find no other room.
                Err(Error::Format { .. } | Error::NoSpace { .. }) => self.room = Mutex::new(room),
                drained => drained?,
            }
        }
        Ok(())
    }

    /// Brings one run as far into the one below as it is to go.
    fn drain(&mut self, drain: &Drain, merge: &Merge) -> Result<()> {
        let young = drain.run - 1;
        let own = &self.young[young];
        let below = match young.checked_sub(1) {
            None => [&self.segments[..], &[]],
            Some(below) => self.young[below].lists(),
        };
        let begin = own.begin;
        let end = border([below, own.lists()], drain.to, self.space.count());
        if end <= begin {
            let run = &mut self.runs[young];
            (run.begun_with, run.arrived) = (drain.to.begun_with, drain.to.arrived);
            return Ok(());
        }
        let left = self.left_from(end, young, drain.to, merge.generation)?;
        match young.checked_sub(1) {
            None => {
                let is_border = covers_to(&self.segments, end);
                let mut merged = match is_border || end == self.space.count() {
                    true => self.merged_with_oldest(begin..end, drain.to, merge)?,
                    false => {
                        let oldest = RunSegments::of(self.segments.clone(), 0);
                        let pair = [oldest, self.young[young].clone()];
                        self.merged(&pair, begin..end, merge.generation)?
                    }
                };
                // Nothing is below it that could have gone: only damage leaves such entries.
                merged.retain(|segment| segment.list == List::Came);
                let directory = self.write_directory(&merged, merge.generation)?;
                (self.directory, self.segments) = (directory, merged);
                self.replace(young, left);
            }
            Some(place) => {
                let pair = &self.young[place..=young];
                let merged = self.merged(pair, begin..end, merge.generation)?;
                let until = self.until(place);
                let merged = self.name_run(merged, until, merge.generation)?;
                self.replace(young, left);
                self.replace(place, merged);
            }
        }
        Ok(())
    }

    /// Puts a run in the place of another, or none.
    fn replace(&mut self, young: usize, by: Option<NamedRun>) {
        let (run, segments) = by.unzip();
        self.runs.splice(young..=young, run);
        self.young.splice(young..=young, segments);
    }

    /// Returns what is left of a run that has drained up to `begin`; `None` if that is nothing.
    fn left_from(
        &self,
        begin: u64,
        young: usize,
        to: Draining,
        generation: u64,
    ) -> Result<Option<NamedRun>> {
        let (run, segments) = (self.runs[young], &self.young[young]);
        let space = self.space;
        let count = |list| count_from(self.counted(), segments.list(list), begin);
        let (came, went) = match begin < space.count() {
            true => (count(List::Came)?, count(List::Went)?),
            false => (0, 0),
        };
        if came + went == 0 {
            return Ok(None);
        }
        let ends = segments.with_ends(space);
        let left: Vec<Segment> = ends
            .filter(|(_, end)| *end > begin)
            .map(|(one, _)| *one)
            .collect();
        // The room of those that are passed is free.
        let directory = match left.len() == segments.segments.len() {
            true => run.directory,
            false => self.write_run_directory((&left, begin), generation)?,
        };
        let run = Run {
            directory: DirectoryRef {
                keys: came + went,
                ..directory
            },
            went,
            begin,
            begun_with: to.begun_with,
            arrived: to.arrived,
            // What has drained is below now.
            below_until: self.until(young + 1),
        };
        Ok(Some((run, RunSegments::of(left, begin))))
    }

    /// Writes the directory of a run's segments. Returns `None` if there are none. Nothing below it is of a later step than
    /// `below_until`.
    pub(super) fn name_run(
        &self,
        segments: Vec<Segment>,
        below_until: u64,
        generation: u64,
    ) -> Result<Option<NamedRun>> {
        if segments.is_empty() {
            return Ok(None);
        }
        let went = segments.iter().filter(|one| one.list == List::Went);
        let run = Run {
            directory: self.write_run_directory((&segments, 0), generation)?,
            went: went.map(|segment| segment.keys).sum(),
            begin: 0,
            begun_with: 0,
            arrived: 0,
            below_until,
        };
        Ok(Some((run, RunSegments::of(segments, 0))))
    }

    /// Returns the segments of the oldest run once the first run above it has drained over a range. Its `start` need not be
    /// a border of these segments.
    fn merged_with_oldest(
        &self,
        slice: Range<u64>,
        to: Draining,
        merge: &Merge,
    ) -> Result<Vec<Segment>> {
        let old = &self.segments;
        let step = Step {
            old,
            part: covering(old, &slice),
            young: &self.young[..1],
            merge: &Merge {
                // In the whole range of fingerprints, of which the pass takes a part.
                count: to.begun_with,
                brought: 0,
                ..*merge
            },
            // The filter of the set has these fingerprints already.
            negative_filter: &NegativeFilterUpdate::none(),
        };
        let most = self.access.options.chunk_keys();
        let mut nothing = ChangeStream::new(ChangeSource::Nothing, self.space, most);
        let merged = self.merge_step(&step, &mut nothing)?;
        let Range { start, end } = step.part;
        Ok([&old[..start], &merged, &old[end..]].concat())
    }

    /// Returns the segments of a run once the next younger one has drained over a range. Neither end need be a border.
    fn merged(
        &self,
        pair: &[RunSegments],
        slice: Range<u64>,
        generation: u64,
    ) -> Result<Vec<Segment>> {
        // Entries that count in both runs would be in the store twice.
        assert!(pair.len() == 2 && pair[0].begin == 0 && pair[1].begin == slice.start);
        let room = RoomShare::new(&self.room, 0);
        let mut out = SegmentWriter::new(self.access, room, (self.binding, generation));
        let mut lists = [List::Came, List::Went].map(|list| {
            let target = self.access.options.segment_pages as usize;
            RewrittenList::of(
                &pair[0],
                list,
                &slice,
                (self.space.count(), target, self.ages),
            )
        });
        for list in &mut lists {
            let before = list.covers.start..slice.start;
            self.copy(list.old, before, &mut list.writer, &mut out)?;
        }
        let mut changes = YoungChanges::new(self.unsalvaged(), pair, slice.start)?;
        let mut own = OwnedChanges::default();
        let entries: u64 = pair
            .iter()
            .flat_map(|run| &run.segments)
            .map(|one| one.keys)
            .sum();
        let at_once = self.access.options.changes_at_once();
        for end in (self.space).parts_of(&slice, entries.div_ceil(at_once)) {
            own.added.clear();
            own.removed.clear();
            changes.join(&mut own, end)?;
            for (list, fingerprints) in lists.iter_mut().zip([&own.added, &own.removed]) {
                list.writer.put(fingerprints, &mut out)?;
            }
        }
        // Segments that it has in memory are those that are accounted for.
        drop(changes);
        let mut segments = Vec::new();
        for mut list in lists {
            let behind = slice.end..list.covers.end;
            self.copy(list.old, behind, &mut list.writer, &mut out)?;
            segments.extend(list.finish(&mut out)?);
        }
        out.finish()?;
        Ok(segments)
    }

    /// Returns where entries are read from, all or none: what is left of a damaged segment would not fit the other list.
    fn unsalvaged(&self) -> ListedFile<'_> {
        ListedFile {
            salvages: false,
            ..self.listed()
        }
    }

    /// Copies the entries of a list in a range, page by page.
    fn copy(
        &self,
        from: &[Segment],
        range: Range<u64>,
        to: &mut ListWriter,
        out: &mut SegmentWriter<'_, '_>,
    ) -> Result<()> {
        if from.is_empty() || range.is_empty() {
            return Ok(());
        }
        let mut list = FingerprintList::open(self.unsalvaged(), from, range.start)?;
        let mut some = Vec::new();
        while list.peek().is_some_and(|next| next < range.end) {
            some.clear();
            list.take_of_page(range.end, &mut some)?;
            to.put(&some, out)?;
        }
        Ok(())
    }
}

/// One list of a run of which a range is rewritten.
struct RewrittenList<'s> {
    old: &'s [Segment],
    /// The segments that are rewritten.
    replaced: Range<usize>,
    /// The range that these have: some more than is merged.
    covers: Range<u64>,
    writer: ListWriter,
}

impl<'s> RewrittenList<'s> {
    fn of(
        run: &'s RunSegments,
        list: List,
        slice: &Range<u64>,
        (space, target, ages): (u64, usize, Ages),
    ) -> Self {
        let old = run.list(list);
        let replaced = covering(old, slice);
        let first = |at: usize| old.get(at).map(|one| one.first);
        let covers = first(replaced.start).unwrap_or(0)..first(replaced.end).unwrap_or(space);
        let writer = ListWriter::new(list, target, (covers.clone(), ages));
        Self {
            // Segments leave no gap, even if nothing is left in a range.
            writer: match old.is_empty() {
                true => writer,
                false => writer.begun(),
            },
            old,
            replaced,
            covers,
        }
    }

    /// Returns all segments of the list, those included that stay; none if none has an entry.
    fn finish(self, out: &mut SegmentWriter<'_, '_>) -> Result<Vec<Segment>> {
        let new = self.writer.finish(out)?;
        let Range { start, end } = self.replaced;
        let all = [&self.old[..start], &new, &self.old[end..]].concat();
        match all.iter().any(|one| one.keys > 0) {
            true => Ok(all),
            false => Ok(Vec::new()),
        }
    }
}

/// Returns the last border between segments that a drain is to reach. Of the two runs the list with most segments says where
/// these are, so that a slice of neither is much larger than a segment.
fn border(pair: [[&[Segment]; 2]; 2], to: Draining, space: u64) -> u64 {
    let end = to.share_of(space);
    if end == space {
        return space;
    }
    let lists = pair.as_flattened();
    let most = lists.iter().rev().max_by_key(|list| list.len());
    let reached = most.map_or(&[][..], |list| {
        &list[..list.partition_point(|one| one.first <= end)]
    });
    reached.last().map_or(0, |last| last.first)
}

/// Returns whether a segment begins there.
fn covers_to(segments: &[Segment], end: u64) -> bool {
    segments.binary_search_by_key(&end, |one| one.first).is_ok()
}

/// Returns those of a list's segments that have a range.
fn covering(list: &[Segment], range: &Range<u64>) -> Range<usize> {
    let start = list.partition_point(|one| one.first <= range.start);
    start.saturating_sub(1)..list.partition_point(|one| one.first < range.end)
}
