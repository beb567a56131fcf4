//! Stores of given runs, for rigs: at once what checkpoints write one after the other.

use crate::error::{Error, Result};
use crate::file::directory_ref::directory_pages;
use crate::file::layout::page_offset;
use crate::file::{DirectoryRef, Run, RunTable};
use crate::fingerprint::directory_file::{raise_reused, write_run_directory};
use crate::fingerprint::segment::directory::range;
use crate::fingerprint::segment::entry::{List, Segment};
use crate::fingerprint::segment::packer::Packer;
use crate::page::Binding;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::storefile::still_file::StillFile;
use crate::storefile::store_file::write_superblock;
use crate::sys::storage::write_all_at;

/// A run above those that a store of fingerprints has.
#[derive(Debug, Clone, Default)]
pub struct GivenRun {
    /// Hashes of the keys that came, which no run below has.
    pub came: Vec<u64>,
    /// Hashes of the keys that went, which the runs below have.
    pub went: Vec<u64>,
    /// The cursor: entries of hashes below this are in the run below, and don't count any more.
    pub begin: u64,
    /// Whether it has a cursor and no numbers of a drain, as after a repair that gave half of a checkpoint up.
    pub is_rolled_back: bool,
}

/// Writes runs behind the end of a closed store, and a superblock that names them above those that it has.
pub(crate) fn add_runs(
    store: StillFile<'_>,
    space: FingerprintSpace,
    runs: &[GivenRun],
    segment_pages: usize,
) -> Result<()> {
    let mut superblock = store.superblock.clone();
    raise_reused(store.file, store.path, superblock.set_version())?;
    let mut writer = RunWriter {
        store,
        space,
        binding: store.header.binding(),
        segment_pages,
        end: superblock.end_offset().div_ceil(page_offset(1)),
        version: superblock.sequence + 1,
    };
    let mut table = RunTable {
        set_version: writer.version,
        runs: superblock.runs().to_vec(),
        forgets: false,
    };
    for run in runs {
        table.runs.push(writer.write(run)?);
    }
    if table.runs.is_empty() {
        return Ok(());
    }
    superblock.runs = Some(table);
    for _ in 0..2 {
        superblock.sequence += 1;
        write_superblock(store.file, store.path, store.header, &superblock)?;
    }
    Ok(())
}

struct RunWriter<'a> {
    store: StillFile<'a>,
    space: FingerprintSpace,
    binding: Binding,
    segment_pages: usize,
    /// The first page behind all others.
    end: u64,
    version: u64,
}

impl RunWriter<'_> {
    fn write(&mut self, given: &GivenRun) -> Result<Run> {
        let begin = self.space.fingerprint(given.begin);
        let (mut segments, came) = self.list(List::Came, &given.came, begin)?;
        let (others, went) = self.list(List::Went, &given.went, begin)?;
        segments.extend(others);
        let pages = directory_pages(segments.len() as u64);
        let places = [self.end, self.end + pages];
        self.end += 2 * pages;
        let all = given.came.len() + given.went.len();
        let directory = write_run_directory(
            (self.store.file, self.store.path),
            self.binding,
            (&segments, begin),
            places,
            (self.version, self.store.superblock.generation),
        )?;
        Ok(Run {
            directory: DirectoryRef {
                keys: came + went,
                ..directory
            },
            went,
            begin,
            begun_with: match begin > 0 && !given.is_rolled_back {
                true => all as u64,
                false => 0,
            },
            arrived: 0,
            below_until: 0,
        })
    }

    /// Writes a list, without segments that are wholly below `begin`. Also returns how many of its entries count.
    fn list(&mut self, list: List, hashes: &[u64], begin: u64) -> Result<(Vec<Segment>, u64)> {
        let fingerprints = hashes.iter().map(|hash| self.space.fingerprint(*hash));
        let mut fingerprints: Vec<u64> = fingerprints.collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        let below = fingerprints.partition_point(|one| *one < begin);
        if below == fingerprints.len() {
            return Ok((Vec::new(), 0));
        }
        let mut packer = Packer::aiming_at(self.segment_pages, 0, Vec::new());
        packer.put(&fingerprints);
        let mut drafts = Vec::new();
        while let Some(draft) = packer.take_full() {
            drafts.push(draft);
        }
        drafts.extend(packer.finish(self.space.count()));
        let mut segments = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let generation = self.store.superblock.generation;
            let (segment, bytes) = draft.place(self.binding, self.end, generation);
            write_all_at(self.store.file, &bytes, page_offset(self.end))
                .map_err(|error| Error::io("write pages of", self.store.path, error))?;
            self.end = segment.extent().end;
            segments.push(Segment { list, ..segment });
        }
        let indexes = 0..segments.len();
        let ends = indexes.map(|index| range(&segments, index, self.space).end);
        let passed = ends.filter(|end| *end <= begin).count();
        segments.drain(..passed);
        Ok((segments, (fingerprints.len() - below) as u64))
    }
}
