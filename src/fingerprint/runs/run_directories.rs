//! Reads the directories of all runs that a superblock names (FORMAT.md, "Run table").

use std::path::Path;

use crate::error::{Error, Result};
use crate::file::Superblock;
use crate::fingerprint::directory_file::{expect_directory, read_directory, read_run_directory};
use crate::fingerprint::segment::directory::{check_apart, range};
use crate::fingerprint::segment::entry::{List, Segment};
use crate::fingerprint::segment::fault::SegmentFault;
use crate::page::Binding;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::sys::storage::StorageFile;

/// A run as its directory names it.
#[derive(Debug, Clone)]
pub(crate) struct RunSegments {
    /// Those of both lists, in the order of the directory.
    pub(crate) segments: Vec<Segment>,
    /// Entries of fingerprints below this don't count.
    pub(crate) begin: u64,
    /// The pages of one copy of the directory or the other that are damaged, with what is wrong.
    pub(crate) damaged: Vec<SegmentFault>,
}

impl RunSegments {
    /// Returns those of a run that was just written.
    pub(crate) fn of(segments: Vec<Segment>, begin: u64) -> Self {
        Self {
            segments,
            begin,
            damaged: Vec::new(),
        }
    }

    /// Returns the segments of a list.
    pub(crate) fn list(&self, list: List) -> &[Segment] {
        let begin = self.segments.partition_point(|one| one.list < list);
        let end = self.segments.partition_point(|one| one.list <= list);
        &self.segments[begin..end]
    }

    /// Returns those of both lists.
    pub(crate) fn lists(&self) -> [&[Segment]; 2] {
        [List::Came, List::Went].map(|list| self.list(list))
    }

    /// Returns all segments, each with where its range ends.
    pub(crate) fn with_ends(
        &self,
        space: FingerprintSpace,
    ) -> impl Iterator<Item = (&Segment, u64)> {
        let segments = self.segments.iter().enumerate();
        segments.map(move |(index, one)| (one, range(&self.segments, index, space).end))
    }
}

/// Reads and checks the directories of all runs, the oldest first.
pub(crate) fn read_runs(
    file: &dyn StorageFile,
    path: &Path,
    superblock: &Superblock,
    bound: (Option<FingerprintSpace>, Binding),
) -> Result<Vec<RunSegments>> {
    let (directory, space) = expect_directory(path, superblock, bound.0)?;
    let bound = (space, bound.1);
    let oldest = read_directory(file, path, &directory, bound)?;
    let mut runs = vec![RunSegments {
        segments: oldest.segments,
        begin: 0,
        damaged: oldest.damaged,
    }];
    for run in superblock.runs() {
        let found = read_run_directory(file, path, run, bound)?;
        runs.push(RunSegments {
            segments: found.segments,
            begin: run.begin,
            damaged: found.damaged,
        });
    }
    assert_eq!(
        runs.len(),
        superblock.directories().count(),
        "a run that no look-up asks"
    );
    let segments = runs.iter().flat_map(|run| &run.segments);
    check_named_apart(path, superblock, segments)?;
    Ok(runs)
}

/// Checks that no page of a store with several runs is named twice.
pub(crate) fn check_named_apart<'s>(
    path: &Path,
    superblock: &Superblock,
    segments: impl Iterator<Item = &'s Segment>,
) -> Result<()> {
    if superblock.runs.is_none() {
        return Ok(());
    }
    let segments = segments.map(Segment::extent);
    check_apart(superblock.named().into_iter().chain(segments)).map_err(|fault| Error::Format {
        path: path.to_owned(),
        source: fault.into(),
    })
}
