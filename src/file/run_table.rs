//! The runs of a store of fingerprints above its oldest one (FORMAT.md, "Run table").

use super::directory_ref::DirectoryRef;
use super::layout::first_shared;
use super::superblock_parts::{wrong, wrong_field};
use super::{Superblock, SuperblockFault};
use crate::codec::{Decoder, Encoder};
use crate::page::ages::MOST_STEP;
use crate::page::fingerprint_space::FingerprintSpace;

/// The most runs above the oldest one.
pub(crate) const MOST_RUNS: usize = 24;
/// Bytes that a run takes in the table.
pub(crate) const RUN_BYTES: usize = 104;
/// Bytes before the first run.
const TABLE_FRONT_BYTES: usize = 16;
/// Bytes of the longest table.
pub(super) const MOST_TABLE_BYTES: usize = TABLE_FRONT_BYTES + MOST_RUNS * RUN_BYTES;

/// A run above the oldest one. Its segments are of two lists: the fingerprints that came, which no run below has, and those
/// that went, which the runs below have. No fingerprint is in both.
///
/// In a store that forgets, an entry says nothing of the runs below: what came may be there with an older age, and what went
/// need not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The directory of both lists. Its `keys` are all entries that count.
    pub(crate) directory: DirectoryRef,
    /// How many of these went.
    pub(crate) went: u64,
    /// The cursor: the entries of fingerprints below it don't count, since they are in the run below.
    pub(crate) begin: u64,
    /// The entries that counted when its drain into the run below began; 0 without a drain.
    pub(crate) begun_with: u64,
    /// The keys that checkpoints have brought since then.
    pub(crate) arrived: u64,
    /// Only in a store that forgets: no key and no removal in the runs below is of a later step.
    pub(crate) below_until: u64,
}

/// How far a run has drained into the one below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Draining {
    /// The entries that it had when it began.
    pub(crate) begun_with: u64,
    /// The keys that checkpoints have brought since then.
    pub(crate) arrived: u64,
}

impl Draining {
    /// Returns how far it is once so many keys more have come.
    pub(crate) fn with(self, changes: u64) -> Self {
        Self {
            arrived: self.arrived.saturating_add(changes).min(self.begun_with),
            ..self
        }
    }

    /// Returns how far of so long a way the run is, rounded down.
    pub(crate) fn share_of(self, way: u64) -> u64 {
        let share = u128::from(way) * u128::from(self.arrived) / u128::from(self.begun_with.max(1));
        u64::try_from(share).unwrap_or(way).min(way)
    }

    /// Returns how many entries are written until it has drained into a run of so many.
    pub(crate) fn rest(self, entries: u64, below: u64) -> u64 {
        entries.saturating_add(below - self.share_of(below))
    }
}

impl Run {
    /// Returns how far it has drained; `None` if it doesn't. A repair that gives half of a checkpoint up may leave a cursor
    /// without the numbers: then it begins again from there.
    pub(crate) fn draining(&self) -> Option<Draining> {
        let draining = Draining {
            begun_with: self.begun_with.max(self.directory.keys).max(1),
            arrived: self.arrived,
        };
        (self.begun_with > 0 || self.begin > 0).then_some(draining)
    }

    /// Returns how many entries that count say that a fingerprint came.
    pub(crate) fn came(&self) -> u64 {
        self.directory.keys - self.went
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        let directory = &self.directory;
        assert!(self.went <= directory.keys, "{self:?}");
        out.u64(directory.places[0])
            .u64(directory.places[1])
            .u64(directory.segments)
            .u64(directory.pages)
            .u64(self.came())
            .u64(self.went)
            .u64(directory.end_page)
            .u64(directory.version)
            .u64(directory.generation)
            .u64(self.begin)
            .u64(self.begun_with)
            .u64(self.arrived)
            .u64(self.below_until);
    }

    /// Decodes a run of a superblock of this sequence; `generation` is the highest that its directory's pages may have.
    fn decode(
        input: &mut Decoder<'_>,
        (sequence, generation): (u64, u64),
    ) -> Option<Result<Self, SuperblockFault>> {
        let places = [input.u64()?, input.u64()?];
        let (segments, pages) = (input.u64()?, input.u64()?);
        let (came, went) = (input.u64()?, input.u64()?);
        let directory = DirectoryRef {
            places,
            segments,
            pages,
            // More than any pages have room for.
            keys: came.saturating_add(went),
            end_page: input.u64()?,
            version: input.u64()?,
            generation: input.u64()?,
        };
        let run = Self {
            directory,
            went,
            begin: input.u64()?,
            begun_with: input.u64()?,
            arrived: input.u64()?,
            below_until: input.u64()?,
        };
        let checked = directory.check(sequence, generation);
        let checked = checked.and_then(|()| run.check());
        Some(checked.map(|()| run))
    }

    fn check(&self) -> Result<(), SuperblockFault> {
        if self.directory.segments == 0 {
            return wrong_field("segments", "some in a run", 0);
        }
        if self.begun_with != 0 && self.begun_with < self.directory.keys {
            let expected = "0, or as many as its entries at least";
            return wrong_field("begun_with", expected, self.begun_with);
        }
        if self.begun_with == 0 && self.arrived != 0 {
            return wrong_field("arrived", "0 without a drain", self.arrived);
        }
        Ok(())
    }
}

/// The runs above the oldest one, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunTable {
    /// The sequence of the superblock that first named this set of runs, the oldest one included.
    pub(crate) set_version: u64,
    /// The oldest first.
    pub(crate) runs: Vec<Run>,
    /// Whether the store forgets, so that an entry says nothing of the runs below.
    pub(crate) forgets: bool,
}

impl RunTable {
    /// Checks the steps of a store that forgets.
    fn check_steps(&self) -> Result<(), SuperblockFault> {
        let most = if self.forgets { MOST_STEP } else { 0 };
        let mut steps = self.runs.iter().map(|run| run.below_until);
        let (expected, rises) = match self.forgets {
            true => (
                "a step, not below that of the run before",
                steps.clone().is_sorted(),
            ),
            false => ("0 in a store that does not forget", true),
        };
        match steps.clone().find(|step| *step > most) {
            None if rises => Ok(()),
            found => wrong_field(
                "below_until",
                expected,
                found.or(steps.next_back()).unwrap_or(0),
            ),
        }
    }

    pub(super) fn encode(&self, out: &mut Encoder<'_>) {
        // One more would not be read, and none has no table.
        assert!((1..=MOST_RUNS).contains(&self.runs.len()));
        out.u32(self.runs.len() as u32).u32(0).u64(self.set_version);
        for run in &self.runs {
            run.encode(out);
        }
    }

    /// Decodes the table of a superblock of this sequence; `generation` is the highest that pages of directories may have.
    pub(super) fn decode(
        input: &mut Decoder<'_>,
        (sequence, generation): (u64, u64),
        forgets: bool,
    ) -> Option<Result<Self, SuperblockFault>> {
        let count = input.u32()?;
        let reserved = input.u32()?;
        let set_version = input.u64()?;
        if count == 0 || count as usize > MOST_RUNS {
            return wrong("run_count", "1 to 24", count.into());
        }
        if reserved != 0 {
            return wrong("reserved", "0", reserved.into());
        }
        let mut runs = Vec::with_capacity(count as usize);
        for _ in 0..count {
            match Run::decode(input, (sequence, generation))? {
                Ok(run) => runs.push(run),
                Err(fault) => return Some(Err(fault)),
            }
        }
        Some(Ok(Self {
            set_version,
            runs,
            forgets,
        }))
    }
}

impl Superblock {
    /// Returns the cursor of a run; 0 is the oldest one, which has none.
    pub(crate) fn begin_of(&self, run: usize) -> u64 {
        let young = run.checked_sub(1).and_then(|young| self.runs().get(young));
        young.map_or(0, |run| run.begin)
    }

    /// Returns the runs above the oldest one, the oldest first.
    pub(crate) fn runs(&self) -> &[Run] {
        self.runs.as_ref().map_or(&[], |table| &table.runs)
    }

    /// Returns the version of all that is looked through together: the sequence of the superblock that first named these
    /// runs. 0 in a store without segments.
    pub(crate) fn set_version(&self) -> u64 {
        match (&self.runs, &self.directory) {
            (Some(table), _) => table.set_version,
            (None, Some(directory)) => directory.version,
            (None, None) => 0,
        }
    }

    /// Returns whether another superblock names the same segments.
    pub(crate) fn names_the_same(&self, other: &Self) -> bool {
        (&self.directory, &self.runs) == (&other.directory, &other.runs)
    }

    /// Returns whether several runs may have the same fingerprint, so that their sum is an upper bound.
    pub(crate) fn may_count_twice(&self) -> bool {
        self.runs.as_ref().is_some_and(|table| table.forgets)
    }

    /// Returns how many fingerprints the runs have together, in a store that forgets at most; `None` if more went than there
    /// were.
    pub(super) fn sum_of_runs(&self) -> Option<u64> {
        let oldest = self.directory.map_or(0, |directory| directory.keys);
        let mut runs = self.runs().iter();
        if self.may_count_twice() {
            return runs.try_fold(oldest, |sum, run| sum.checked_add(run.came()));
        }
        runs.try_fold(oldest, |sum, run| {
            sum.checked_sub(run.went)?.checked_add(run.came())
        })
    }

    /// Checks the runs against each other, the oldest one, and all else that the superblock names.
    pub(super) fn check_runs(
        &self,
        space: Option<FingerprintSpace>,
    ) -> Result<(), SuperblockFault> {
        let Some(table) = &self.runs else {
            return Ok(());
        };
        let versions = table.runs.iter().map(|run| run.directory.version);
        let oldest = self.directory.map_or(0, |directory| directory.version);
        let least = versions.fold(oldest, u64::max);
        if !(least..=self.sequence.max(1)).contains(&table.set_version) {
            let expected = "at least each run's version, at most the superblock's sequence";
            return wrong_field("set_version", expected, table.set_version);
        }
        let count = space.map_or(0, FingerprintSpace::count);
        if let Some(run) = table.runs.iter().find(|run| run.begin >= count) {
            return wrong_field("begin", "below the number of fingerprints", run.begin);
        }
        table.check_steps()?;
        if let Some(page) = first_shared(self.named()) {
            let expected = "apart from all else that is named";
            return wrong_field("directory_page", expected, page);
        }
        // Between two steps of a checkpoint too: what counts from `begin` on is all in the runs below.
        match self.sum_of_runs() {
            None => wrong_field("went", "at most what the runs below have", u64::MAX),
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
