//! Maps the segments of all runs, for look-ups.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::layout::{REUSED_OFFSET, page_offset};
use crate::file::{DirectoryRef, Superblock};
use crate::fingerprint::directory_file::{
    ReadDirectory, expect_directory, read_directory, read_run_directory,
};
use crate::fingerprint::pending_filter::PendingFilter;
use crate::fingerprint::runs::run_directories::check_named_apart;
use crate::fingerprint::runs::run_set::{RunPages, RunSet, YoungRun};
use crate::fingerprint::segment::entry::{List, Segment};
use crate::fingerprint::segment::pages::SegmentPages;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES};
use crate::page_io::map_error::MapError;
use crate::sys::Map;
use crate::sys::storage::{StorageFile, read_exact_at};

/// Reads the directories of all runs and maps their segments. The map reaches to the end of the file, and serves later
/// directories too.
pub(crate) fn map_segments(
    file: &dyn StorageFile,
    path: &Path,
    superblock: &Superblock,
    bound: (FingerprintSpace, Binding),
    held: Option<&Arc<RunSet>>,
    pending: &PendingFilter,
) -> Result<Arc<RunSet>, MapError> {
    let version = superblock.set_version();
    if let Some(held) = held.filter(|held| held.version() == version) {
        return Ok(Arc::clone(held));
    }
    let opening = Opening {
        file,
        path,
        superblock,
        bound,
        held: held.map(Arc::as_ref),
    };
    let (oldest, young) = match opening.runs() {
        Err(error @ Error::Format { .. }) => {
            return Err(stale_or(error, file, path, version));
        }
        outcome => outcome?,
    };
    let map = opening.map()?;
    let budget = pending.budget();
    let set = RunSet::new((version, bound.0), oldest, young, (map, budget));
    Ok(Arc::new(set.with_negative_filter(pending.take(version))))
}

/// The runs that a superblock names, on their way to a set.
struct Opening<'a> {
    file: &'a dyn StorageFile,
    path: &'a Path,
    superblock: &'a Superblock,
    bound: (FingerprintSpace, Binding),
    held: Option<&'a RunSet>,
}

impl Opening<'_> {
    /// Returns the oldest run, and the others, the youngest first. Those that the held set has are not read again.
    fn runs(&self) -> Result<(Arc<RunPages>, Vec<YoungRun>)> {
        let (file, path, bound) = (self.file, self.path, self.bound);
        let (directory, _) = expect_directory(path, self.superblock, Some(bound.0))?;
        let oldest = self.run(&directory, || read_directory(file, path, &directory, bound))?;
        let mut young = Vec::with_capacity(self.superblock.runs().len());
        for run in self.superblock.runs().iter().rev() {
            let read = || read_run_directory(file, path, run, bound);
            young.push(YoungRun {
                pages: self.run(&run.directory, read)?,
                begin: run.begin,
            });
        }
        let runs = young.iter().map(|run| &run.pages).chain([&oldest]);
        let segments = runs.flat_map(|run| run.segments());
        check_named_apart(path, self.superblock, segments)?;
        Ok((oldest, young))
    }

    fn run(
        &self,
        directory: &DirectoryRef,
        read: impl FnOnce() -> Result<ReadDirectory>,
    ) -> Result<Arc<RunPages>> {
        let held = self.held.and_then(|held| {
            let mut runs = held.runs();
            runs.find(|run| run.is_of(directory))
        });
        if let Some(held) = held {
            return Ok(Arc::clone(held));
        }
        let mut came = read()?.segments;
        let went = came.split_off(came.partition_point(|one| one.list == List::Came));
        // What was checked of the oldest run before is mostly in the new one.
        let before = self.held.map(|held| held.oldest());
        let pages = |segments: Vec<Segment>| {
            let held = before.map(|held| &held.came);
            SegmentPages::new(segments, directory.end_page, self.bound, held)
                .map_err(|error| Error::io("map the segments of", self.path, error))
        };
        Ok(Arc::new(RunPages {
            directory: *directory,
            came: pages(came)?,
            went: match went.is_empty() {
                true => None,
                false => Some(pages(went)?),
            },
        }))
    }

    fn map(&self) -> Result<Arc<Map>> {
        let failed = |error| Error::io("map the segments of", self.path, error);
        let ends = self.superblock.directories().map(|found| found.end_page);
        let end = page_offset(ends.fold(0, u64::max));
        let held = self.held.map(RunSet::map);
        if let Some(held) = held.filter(|held| held.len() as u64 * 8 >= end) {
            return Ok(Arc::clone(held));
        }
        let length = self.file.length().map_err(failed)?.max(end);
        let whole = length - length % PAGE_BYTES as u64;
        let map = self.file.map(0, whole);
        // With less address space, without the pages that later directories may have.
        let map = map.or_else(|_| self.file.map(0, end));
        let map = map.map_err(failed)?;
        // Look-ups compare a place with the map's length alone.
        assert!(
            map.len() as u64 * 8 >= end,
            "{} words up to {end}",
            map.len()
        );
        Ok(Arc::new(map))
    }
}

/// Returns the error of a damaged directory, unless its room may have been written again since its superblock was read.
fn stale_or(error: Error, file: &dyn StorageFile, path: &Path, version: u64) -> MapError {
    let mut word = [0; 8];
    match read_exact_at(file, &mut word, REUSED_OFFSET) {
        Ok(()) if u64::from_le_bytes(word) > version => MapError::Stale {
            path: path.to_owned(),
        },
        _ => MapError::Failed(error),
    }
}
