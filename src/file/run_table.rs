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
        let steps = self.runs.iter().map(|run| run.below_until);
        let (expected, rises) = match self.forgets {
            true => (
                "a step, not below that of the run before",
                steps.clone().is_sorted(),
            ),
            false => ("0 in a store that does not forget", true),
        };
        match steps.clone().find(|step| *step > most) {
            None if rises => Ok(()),
            found => wrong_field("below_until", expected, found.or(steps.last()).unwrap_or(0)),
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
mod tests {
    use super::*;
    use crate::codec::{put_u32, put_u64};
    use crate::file::layout::MAX_COUNTER;

    fn run(number: u64) -> Run {
        Run {
            directory: DirectoryRef {
                places: [5000 + 10 * number, 5005 + 10 * number],
                segments: 3,
                pages: 40,
                keys: 1000,
                end_page: 6000,
                version: 7,
                generation: 5,
            },
            went: 300,
            begin: 77,
            begun_with: 1200,
            arrived: 9,
            below_until: 0,
        }
    }

    fn table() -> RunTable {
        RunTable {
            set_version: 8,
            runs: vec![run(1), run(2)],
            forgets: false,
        }
    }

    fn bytes_of(table: &RunTable) -> Vec<u8> {
        let mut bytes = Vec::new();
        table.encode(&mut Encoder::new(&mut bytes));
        bytes
    }

    fn decoded(bytes: &[u8]) -> Option<Result<RunTable, SuperblockFault>> {
        RunTable::decode(&mut Decoder::new(bytes), (9, 6), false)
    }

    #[test]
    fn there_and_back() {
        let bytes = bytes_of(&table());
        assert_eq!(bytes.len(), TABLE_FRONT_BYTES + 2 * RUN_BYTES);
        assert_eq!(decoded(&bytes), Some(Ok(table())));
        assert_eq!(decoded(&bytes[..bytes.len() - 1]), None);
        let most = RunTable {
            set_version: 8,
            runs: (0..MOST_RUNS as u64).map(run).collect(),
            forgets: false,
        };
        assert_eq!(bytes_of(&most).len(), MOST_TABLE_BYTES);
        assert_eq!(decoded(&bytes_of(&most)), Some(Ok(most)));
    }

    #[test]
    fn every_field_out_of_range_has_its_fault() {
        let second = TABLE_FRONT_BYTES + RUN_BYTES;
        for (place, value, name) in [
            (0, 0, "directory_page"),
            (0, 5998 + 2, "directory_page"),
            (8, 5020, "directory_page"),
            (16, 0, "segments"),
            (16, 41, "segments"),
            (24, 6000 - 31, "segment_pages"),
            (32, u64::MAX, "keys"),
            (32, 1201 - 300, "begun_with"),
            (40, u64::MAX, "keys"),
            (40, 1201 - 700, "begun_with"),
            (48, 31, "end_page"),
            (56, 0, "version"),
            (56, 10, "version"),
            (56, MAX_COUNTER + 1, "version"),
            (64, 0, "directory_generation"),
            (64, 7, "directory_generation"),
            (80, 999, "begun_with"),
            (80, 0, "arrived"),
        ] {
            let mut bytes = bytes_of(&table());
            put_u64(&mut bytes, second + place, value);
            match decoded(&bytes) {
                Some(Err(SuperblockFault::Field { field, .. })) => assert_eq!(field, name),
                other => panic!("{name} {value}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_run_without_segments_is_none() {
        let mut bytes = bytes_of(&table());
        for place in (0..48).step_by(8) {
            put_u64(&mut bytes, TABLE_FRONT_BYTES + place, 0);
        }
        let (field, expected, got) = ("segments", "some in a run", 0);
        let fault = SuperblockFault::Field {
            field,
            expected,
            got,
        };
        assert_eq!(decoded(&bytes), Some(Err(fault)));
    }

    /// A superblock with an oldest run of 500 keys and the runs of the table.
    fn superblock() -> Superblock {
        let oldest = DirectoryRef {
            places: [4000, 4001],
            segments: 1,
            pages: 9,
            keys: 500,
            end_page: 4002,
            version: 3,
            generation: 2,
        };
        Superblock {
            sequence: 9,
            generation: 6,
            log_expected: true,
            commit_sequence: 0,
            layers: Vec::new(),
            directory: Some(oldest),
            partly_merged: None,
            sections: Vec::new(),
            commits: Default::default(),
            moment: 0,
            clock: 0,
            earliest: 0,
            runs: Some(table()),
        }
    }

    #[test]
    fn keys_are_the_sum_over_the_runs() {
        let mut superblock = superblock();
        assert_eq!(superblock.keys(), 500 + 2 * (700 - 300));
        assert_eq!(
            (superblock.set_version(), superblock.segment_pages()),
            (8, 89)
        );
        assert_eq!(superblock.end_offset(), 6000 * 4096);
        superblock.partly_merged = Some(77);
        assert_eq!(superblock.keys(), 77);
        superblock.runs = None;
        assert_eq!(superblock.set_version(), 3);
    }

    #[test]
    fn runs_that_do_not_fit_together_have_their_faults() {
        let space = FingerprintSpace::new(1 << 20);
        let checked = |harm: &dyn Fn(&mut Superblock, &mut RunTable)| {
            let (mut superblock, mut table) = (superblock(), table());
            harm(&mut superblock, &mut table);
            superblock.runs = Some(table);
            match superblock.check_runs(space) {
                Ok(()) => "none",
                Err(SuperblockFault::Field { field, .. }) => field,
                Err(other) => panic!("{other:?}"),
            }
        };
        assert_eq!(checked(&|_, _| ()), "none");
        assert_eq!(checked(&|_, table| table.set_version = 6), "set_version");
        assert_eq!(checked(&|_, table| table.set_version = 10), "set_version");
        assert_eq!(checked(&|all, _| all.sequence = 7), "set_version");
        assert_eq!(checked(&|_, table| table.runs[1].begin = 1 << 20), "begin");
        let twice = |_: &mut Superblock, table: &mut RunTable| table.runs[1] = table.runs[0];
        assert_eq!(checked(&twice), "directory_page");
        let shared = |_: &mut Superblock, table: &mut RunTable| {
            table.runs[1].directory.places[0] = 4001;
        };
        assert_eq!(checked(&shared), "directory_page");
        let too_many = |_: &mut Superblock, table: &mut RunTable| table.runs[0].went = 501;
        assert_eq!(checked(&too_many), "went");
        let partly = |all: &mut Superblock, table: &mut RunTable| {
            table.runs[0].went = 501;
            all.partly_merged = Some(5);
        };
        assert_eq!(checked(&partly), "went");
        let later = |_: &mut Superblock, table: &mut RunTable| table.runs[1].below_until = 1;
        assert_eq!(checked(&later), "below_until");
    }

    #[test]
    fn an_entry_of_a_store_that_forgets_says_nothing_of_those_below() {
        let with_steps = |steps: [u64; 2]| {
            let mut superblock = superblock();
            let mut table = table();
            table.forgets = true;
            for (run, step) in table.runs.iter_mut().zip(steps) {
                (run.went, run.below_until) = (700, step);
            }
            superblock.runs = Some(table);
            superblock
        };
        // More may have gone than there was.
        assert_eq!(with_steps([3, 3]).keys(), 500 + 2 * 300);
        let checked = |steps| with_steps(steps).check_runs(FingerprintSpace::new(1 << 20));
        assert_eq!(checked([3, 3]), Ok(()));
        assert_eq!(checked([3, MOST_STEP]), Ok(()));
        for (steps, got) in [([4, 3], 3), ([0, MOST_STEP + 1], MOST_STEP + 1)] {
            let expected = "a step, not below that of the run before";
            let field = "below_until";
            let fault = SuperblockFault::Field {
                field,
                expected,
                got,
            };
            assert_eq!(checked(steps), Err(fault));
        }
    }

    #[test]
    fn the_front_out_of_range_has_its_fault() {
        for (place, value, name) in [
            (0, 0, "run_count"),
            (0, 25, "run_count"),
            (4, 1, "reserved"),
        ] {
            let mut bytes = bytes_of(&table());
            put_u32(&mut bytes, place, value);
            match decoded(&bytes) {
                Some(Err(SuperblockFault::Field { field, .. })) => assert_eq!(field, name),
                other => panic!("{name} {value}: {other:?}"),
            }
        }
    }
}
