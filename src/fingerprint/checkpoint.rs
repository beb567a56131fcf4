//! The pass of a checkpoint over the segments of a store of fingerprints. It writes where nobody looks: to pages that no
//! superblock names.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::config::damage_policy::OnDamage;
use crate::error::Result;
use crate::file::directory_ref::directory_pages;
use crate::file::{DirectoryRef, Run, RunTable, Section, Superblock};
use crate::fingerprint::changes::{ChangeSource, ChangeStream};
use crate::fingerprint::directory_file::{named, raise_reused, write_directory};
use crate::fingerprint::fingerprint_list::ListedFile;
use crate::fingerprint::negative_filter_update::{HeldFilter, Merge, NegativeFilterUpdate};
use crate::fingerprint::net_list::count_from;
use crate::fingerprint::pending_filter::PendingFilter;
use crate::fingerprint::room_share::RoomShare;
use crate::fingerprint::runs::forgotten_runs::{LogTime, ages_after, may_be_too_old};
use crate::fingerprint::runs::run_directories::{RunSegments, read_runs};
use crate::fingerprint::runs::young_changes::YoungChanges;
use crate::fingerprint::segment::entry::{List, Segment};
use crate::fingerprint::segment::free_room::FreeRoom;
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::fingerprint::segment::pass::Pass;
use crate::fingerprint::segment_io::{SegmentIo, SegmentWriter, take_for_copies};
use crate::memtable::DecidedBy;
use crate::page::Binding;
use crate::page::ages::Ages;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page_io::PageAccess;
use crate::page_io::checkpoint_trigger::CheckpointTrigger;
use crate::page_io::checkpoint_trigger::Workers;
use crate::storefile::meta::Meta;
use crate::sys::two_threads::do_both;

/// Segments from which on two threads merge them.
const LEAST_FOR_TWO: usize = 8;
/// Fewer keys than a full page has: numbers have at most 71 bits, with their ages.
const LEAST_KEYS_IN_PAGE: u64 = 256;
/// The most steps of a checkpoint. The old room of one is free for the next, so the file grows by the share of one.
const MOST_STEPS: usize = 8;

/// A checkpoint of a store of fingerprints: what it may not write to, and what it merges.
pub(crate) struct FingerprintPass<'a> {
    pub(super) access: PageAccess<'a>,
    pub(super) pending: &'a PendingFilter,
    pub(super) held: HeldFilter,
    pub(super) space: FingerprintSpace,
    pub(super) binding: Binding,
    /// How pages are written.
    pub(super) ages: Ages,
    /// The last step of a key in the pages of before, and the first one of a key in those that are written.
    pub(super) until: u64,
    pub(super) earliest: u64,
    /// Whether what is too old now leaves, and keys are counted exactly.
    pub(super) purges: bool,
    /// Whether all pages are read for that: some may have what is too old.
    pub(super) purges_pages: bool,
    /// Whether the runs are those of the superblock from before.
    pub(super) is_as_begun: bool,
    /// The newest superblock. The other one names the same segments.
    pub(super) superblock: Superblock,
    /// The oldest run: that of the newest superblock, until something is merged with it.
    pub(super) directory: DirectoryRef,
    pub(super) segments: Vec<Segment>,
    /// The runs above it, the oldest first: those of the newest superblock, until one drains.
    pub(super) runs: Vec<Run>,
    pub(super) young: Vec<RunSegments>,
    /// Sections that the superblock before names, or that this checkpoint has written, and segments that are all forgotten.
    pub(super) spared: Vec<Range<u64>>,
    pub(super) room: Mutex<FreeRoom>,
}

impl<'a> FingerprintPass<'a> {
    /// Reads the directories, and makes sure that nothing but these is named, so that all other room is free. Runs whose keys
    /// are all forgotten are left out, unread.
    pub(crate) fn begin(
        access: PageAccess<'a>,
        (pending, held): (&'a PendingFilter, HeldFilter),
        (meta, time): (&Meta, LogTime),
        directory: DirectoryRef,
        space: FingerprintSpace,
    ) -> Result<Self> {
        let file = access.file;
        let (ages, until) = ages_after(meta, time.clock);
        let binding = file.header.binding();
        let mut superblock = meta.superblock.clone();
        let bound = (Some(space), binding);
        // A merge that a process died in may have been of a later log, which was lost since.
        let last = superblock.runs().last().map_or(0, |run| run.below_until);
        let until = until.max(last);
        let mut runs = read_runs(&*file.raw, &file.place, &superblock, bound)?;
        // A segment of each list is in memory at a time.
        let lists = runs.iter().flat_map(RunSegments::lists);
        access.expect_memory(lists.map(largest_of).sum())?;
        let young = runs.split_off(1);
        let segments = runs.pop().map_or(Vec::new(), |oldest| oldest.segments);
        let other = meta.other.as_ref();
        if other.is_none_or(|other| !other.names_the_same(&superblock)) {
            // A process died, or the disk failed, between the two superblocks of a checkpoint. The newest may not be on the
            // disk yet, and this one takes the place of the other.
            file.sync("sync the superblock of")?;
            superblock.sequence += 1;
            file.write_superblock(&superblock)?;
        }
        let mut pass = Self {
            access,
            pending,
            held,
            space,
            binding,
            ages,
            purges: time.forgets,
            purges_pages: time.forgets && may_be_too_old(superblock.earliest, ages),
            is_as_begun: true,
            until,
            earliest: superblock.earliest,
            directory,
            segments,
            runs: superblock.runs().to_vec(),
            superblock,
            young,
            spared: meta.other_sections().iter().map(Section::numbers).collect(),
            room: Mutex::new(FreeRoom::around([])),
        };
        pass.free_room()?;
        pass.drop_forgotten();
        if pass.segments.is_empty() && pass.young.is_empty() {
            pass.earliest = ages.base();
        } else if pass.purges {
            pass.earliest = pass.earliest.max(ages.earliest());
        }
        Ok(pass)
    }

    /// Makes all room free that the superblocks do not name.
    pub(super) fn free_room(&mut self) -> Result<()> {
        let file = self.access.file;
        raise_reused(&*file.raw, &file.place, self.superblock.set_version())?;
        self.room = Mutex::new(FreeRoom::around(self.named()));
        Ok(())
    }

    /// Returns the pages that are named.
    pub(crate) fn named(&self) -> Vec<Range<u64>> {
        let young = self.young.iter().flat_map(|run| &run.segments);
        let named = named(&self.superblock, self.segments.iter().chain(young));
        named.chain(self.spared.iter().cloned()).collect()
    }

    /// Spares sections that this checkpoint has written.
    pub(crate) fn spare(&mut self, sections: &[Section]) {
        self.spared.extend(sections.iter().map(Section::numbers));
        self.room = Mutex::new(FreeRoom::around(self.named()));
    }

    /// Returns whether keys have ages.
    pub(crate) fn forgets(&self) -> bool {
        self.ages.are_any()
    }

    /// Returns the sequence of the next superblock.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.superblock.sequence + 1
    }

    /// Returns the version of the set of runs that the superblock names.
    pub(crate) fn set_version(&self) -> u64 {
        self.superblock.set_version()
    }

    /// Merges changes and all younger runs into the oldest, about as many as `merge` says, and writes the segments and the
    /// directory that result, without a sync: the only run from there on. Also returns the filter of the segments if they
    /// are new ones.
    ///
    /// A large store is merged in steps. All but the last are published here. Returns `None`, with none of the last step
    /// published, once the changes turn out not to be those of the log.
    pub(crate) fn run(
        &mut self,
        (source, decided_by): (ChangeSource<'_>, DecidedBy),
        merge: &Merge,
    ) -> Result<Option<(DirectoryRef, Option<Arc<NegativeFilter>>)>> {
        // Of no other generation are the changes: the segments would skip a log, or have one twice.
        assert_eq!(merge.generation, self.superblock.generation + 1);
        let held = std::mem::take(&mut self.held);
        let negative_filter =
            NegativeFilterUpdate::begin(self.access.options, self.space, merge, held);
        let most = self.access.options.chunk_keys();
        let mut changes = ChangeStream::new(source, self.space, most).decided_by(decided_by);
        let old = self.segments.clone();
        let (mut merged, mut unpublished, mut is_published) = (Vec::new(), 0, false);
        for part in parts_of(old.len(), self.access.options.step_segments as usize) {
            let step = Step {
                old: &old,
                part: part.clone(),
                young: &self.young,
                merge,
                negative_filter: &negative_filter,
            };
            let written = self.merge_step(&step, &mut changes)?;
            unpublished += pages_of(written.iter().filter(|one| !is_among(one, &old)));
            merged.extend(written);
            // With few changes, several parts are a step.
            let is_enough = unpublished >= pages_of(&old) / (2 * MOST_STEPS as u64);
            if part.end < old.len() && is_enough {
                if !changes.is_as_logged() {
                    return Ok(None);
                }
                let all = merged.iter().chain(&old[part.end..]).copied().collect();
                let begin = old[part.end].first;
                self.end_step(all, begin, merge.generation, negative_filter.held())?;
                (unpublished, is_published) = (0, true);
            }
        }
        if !changes.is_as_logged() {
            return Ok(None);
        }
        // What a step has published has the filter of before, not the one that was made since.
        let is_new = is_published || merged != self.segments || !self.young.is_empty();
        let rewrites = self.access.state.is_repairing() && !merged.is_empty();
        if !is_new && !rewrites {
            return Ok(Some((self.directory, None)));
        }
        let directory = self.write_directory(&merged, merge.generation)?;
        Ok(Some((directory, negative_filter.into_filter())))
    }

    /// Publishes segments that have a part of the changes, so that the room of the old ones is free. Nothing is lost or
    /// counted twice if the process dies here: the log still counts, and merging it again changes nothing. Look-ups by the
    /// old directory notice that they are passed.
    fn end_step(
        &mut self,
        segments: Vec<Segment>,
        begin: u64,
        generation: u64,
        negative_filter: Option<Arc<NegativeFilter>>,
    ) -> Result<()> {
        // The step took what the younger runs have below here.
        let table = self.runs_from(begin)?;
        let directory = self.write_directory(&segments, generation)?;
        let superblock = Superblock {
            runs: table,
            sequence: self.next_sequence(),
            log_expected: true,
            directory: Some(directory),
            partly_merged: Some(self.superblock.keys()),
            ..self.superblock.clone()
        };
        self.superblock = self.publish(superblock, negative_filter)?;
        (self.directory, self.segments) = (directory, segments);
        self.runs = self.superblock.runs().to_vec();
        self.is_as_begun = false;
        self.free_room()
    }

    /// Returns the runs above the oldest one with all entries from `begin` on.
    fn runs_from(&self, begin: u64) -> Result<Option<RunTable>> {
        let mut runs = Vec::with_capacity(self.young.len());
        for (run, segments) in self.runs.iter().zip(&self.young) {
            let begin = begin.max(run.begin);
            let count = |list| count_from(self.counted(), segments.list(list), begin);
            let (came, went) = (count(List::Came)?, count(List::Went)?);
            runs.push(Run {
                directory: DirectoryRef {
                    keys: came + went,
                    ..run.directory
                },
                went,
                begin,
                // Of the log too.
                below_until: self.ages.base(),
                ..*run
            });
        }
        let set_version = self.next_sequence();
        Ok(self.table(runs, set_version))
    }

    /// Returns the table of runs, unless there are none.
    pub(super) fn table(&self, runs: Vec<Run>, set_version: u64) -> Option<RunTable> {
        (!runs.is_empty()).then_some(RunTable {
            set_version,
            runs,
            forgets: self.forgets(),
        })
    }

    /// Returns the table of the runs that are left, as they are.
    pub(super) fn table_of_rest(&self) -> Option<RunTable> {
        self.table(self.runs.clone(), self.next_sequence())
    }

    /// Returns where the entries of younger runs are counted.
    pub(super) fn counted(&self) -> ListedFile<'_> {
        ListedFile {
            ages: Ages::left_out(self.ages.bits()),
            ..self.listed()
        }
    }

    /// Returns where the entries of younger runs are read from.
    pub(super) fn listed(&self) -> ListedFile<'_> {
        let file = self.access.file;
        ListedFile {
            file: &*file.raw,
            path: &file.place,
            bound: (self.space, self.binding),
            ages: self.ages,
            salvages: self.access.options.on_damage == OnDamage::NeverSeen,
        }
    }

    /// Publishes a superblock. `negative_filter` is that of the segments that it names. Returns the newest superblock.
    pub(crate) fn publish(
        &self,
        superblock: Superblock,
        negative_filter: Option<Arc<NegativeFilter>>,
    ) -> Result<Superblock> {
        // One that is not newer would not count, and a reader would go on to look where others write.
        assert_eq!(superblock.sequence, self.next_sequence());
        assert!(superblock.generation >= self.superblock.generation);
        let version = superblock.set_version();
        // Another thread may map the directory as soon as it is named.
        self.pending.set(version, negative_filter);
        let named = self.access.file.name_segments(superblock);
        named.inspect_err(|_| self.pending.set(version, None))
    }

    /// Merges a part of the segments, on two threads if a caller waits, perhaps since the step before.
    pub(super) fn merge_step(
        &self,
        step: &Step<'_>,
        changes: &mut ChangeStream<'_>,
    ) -> Result<Vec<Segment>> {
        let trigger = match self.access.state.is_awaited() {
            true => CheckpointTrigger::Awaited,
            false => step.merge.trigger,
        };
        let workers = trigger.workers(self.access.options);
        let by_two = workers == Workers::Two && step.part.len() >= LEAST_FOR_TWO;
        let halves = by_two.then(|| [(); 2].map(|()| changes.another()));
        match halves {
            Some([Some(low), Some(high)]) => {
                let merge_half = |part: Range<usize>, mut changes: ChangeStream<'_>| {
                    let half = Step { part, ..*step };
                    let pages = self.pages_after(&half);
                    self.merge_part(&half, &mut changes, pages)
                };
                let Range { start, end } = step.part;
                let middle = start + (end - start) / 2;
                let first = || merge_half(start..middle, low);
                let second = || merge_half(middle..end, high);
                let (mut segments, others) = do_both(first, second)?;
                segments.extend(others);
                Ok(segments)
            }
            _ => self.merge_part(step, changes, 0),
        }
    }

    /// Returns how many pages a part of the segments will have, about, and one segment more.
    fn pages_after(&self, step: &Step<'_>) -> u64 {
        let pages = pages_of(&step.old[step.part.clone()]);
        let keys = step.merge.directory.keys.max(1);
        let grown = u128::from(pages) * u128::from(keys.saturating_add(step.merge.count));
        let grown = u64::try_from(grown / u128::from(keys)).unwrap_or(u64::MAX);
        // Where hardly a key is left, many pages for each would be.
        let most = pages.saturating_add(step.merge.count.div_ceil(LEAST_KEYS_IN_PAGE));
        let segment = self.access.options.segment_pages;
        grown.min(most).saturating_add(segment)
    }

    /// Merges a part of the segments, with room for `pages_at_once` at a time.
    fn merge_part(
        &self,
        step: &Step<'_>,
        changes: &mut ChangeStream<'_>,
        pages_at_once: u64,
    ) -> Result<Vec<Segment>> {
        let begin = step.old.get(step.part.start).map_or(0, |one| one.first);
        let mut io = SegmentIo {
            young: YoungChanges::new(self.listed(), step.young, begin)?,
            access: self.access,
            changes,
            changes_at_once: self.access.options.changes_at_once(),
            out: SegmentWriter::new(
                self.access,
                RoomShare::new(&self.room, pages_at_once),
                (self.binding, step.merge.generation),
            ),
            negative_filter: step.negative_filter,
            ages: (self.ages, self.purges_pages),
        };
        let pass = Pass::new(&mut io, self.space, step.old, step.merge.count);
        let segments = pass.of_part(step.part.clone()).run();
        let segments = segments.map_err(|failure| failure.0)?;
        io.out.finish()?;
        Ok(segments)
    }

    pub(super) fn write_directory(
        &mut self,
        segments: &[Segment],
        generation: u64,
    ) -> Result<DirectoryRef> {
        let pages = directory_pages(segments.len() as u64);
        if pages == 0 {
            // All that came in younger runs went in others, or is forgotten.
            assert!(!self.young.is_empty() || self.forgets());
            return Ok(DirectoryRef {
                version: self.next_sequence(),
                generation,
                ..DirectoryRef::empty()
            });
        }
        let file = self.access.file;
        let places = take_for_copies(self.access, RoomShare::new(&self.room, 0), pages)?;
        let (version, path) = (self.next_sequence(), &*file.place);
        write_directory(
            &*file.raw,
            path,
            self.binding,
            segments,
            places,
            (version, generation),
        )
    }
}

/// A part of the segments of before, and what is merged into them.
#[derive(Clone)]
pub(super) struct Step<'p> {
    pub(super) old: &'p [Segment],
    pub(super) part: Range<usize>,
    /// The runs whose entries are among the changes, the oldest first.
    pub(super) young: &'p [RunSegments],
    pub(super) merge: &'p Merge,
    pub(super) negative_filter: &'p NegativeFilterUpdate,
}

/// Returns the parts that so many segments are merged in: one at least, and each of `least` at least if there are as many.
fn parts_of(segments: usize, least: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = (segments / least).clamp(1, MOST_STEPS);
    (0..parts).map(move |part| segments * part / parts..segments * (part + 1) / parts)
}

fn is_among(segment: &Segment, all: &[Segment]) -> bool {
    let place = all.binary_search_by_key(&segment.first, |one| one.first);
    place.is_ok_and(|place| all[place] == *segment)
}

/// Returns the pages that segments take in the file.
fn pages_of<'s>(segments: impl IntoIterator<Item = &'s Segment>) -> u64 {
    let extents = segments.into_iter().map(Segment::extent);
    extents.map(|extent| extent.end - extent.start).sum()
}

/// Returns how many pages the largest of some segments takes in the file.
fn largest_of(segments: &[Segment]) -> u64 {
    let extents = segments.iter().map(Segment::extent);
    extents
        .map(|extent| extent.end - extent.start)
        .max()
        .unwrap_or(0)
}
