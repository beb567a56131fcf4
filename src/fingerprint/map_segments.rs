//! Maps the segments of a directory, for look-ups.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::DirectoryRef;
use crate::file::layout::{REUSED_OFFSET, page_offset};
use crate::fingerprint::directory_file::read_directory;
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::fingerprint::segment::pages::SegmentPages;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES};
use crate::page_io::map_error::MapError;
use crate::sys::storage::{StorageFile, read_exact_at};

/// Reads a directory and maps its segments. The map reaches to the end of the file, and serves later directories too.
pub(crate) fn map_segments(
    file: &dyn StorageFile,
    path: &Path,
    directory: &DirectoryRef,
    bound: (FingerprintSpace, Binding),
    held: Option<&Arc<SegmentPages>>,
    take_negative_filter: impl FnOnce(u64) -> Option<Arc<NegativeFilter>>,
) -> Result<Arc<SegmentPages>, MapError> {
    if let Some(held) = held.filter(|held| held.version() == directory.version) {
        return Ok(Arc::clone(held));
    }
    let failed = |error| Error::io("map the segments of", path, error);
    let found = match read_directory(file, path, directory, bound) {
        Err(error @ Error::Format { .. }) => {
            return Err(stale_or(error, file, path, directory));
        }
        outcome => outcome?,
    };
    let end = page_offset(directory.end_page);
    let map = match held.filter(|held| held.map().len() as u64 * 8 >= end) {
        Some(held) => Arc::clone(held.map()),
        None => {
            let length = file.length().map_err(failed)?.max(end);
            let whole = length - length % PAGE_BYTES as u64;
            let map = file.map(0, whole);
            // With less address space, without the pages that later directories may have.
            let map = map.or_else(|_| file.map(0, end));
            Arc::new(map.map_err(failed)?)
        }
    };
    let held = held.map(Arc::as_ref);
    let pages = SegmentPages::new(found.segments, bound, directory, map, held);
    let pages = pages.map_err(failed)?;
    Ok(Arc::new(pages.with_negative_filter(take_negative_filter(
        directory.version,
    ))))
}

/// Returns the error of a damaged directory, unless its room may have been written again since its superblock was read.
fn stale_or(
    error: Error,
    file: &dyn StorageFile,
    path: &Path,
    directory: &DirectoryRef,
) -> MapError {
    let mut word = [0; 8];
    match read_exact_at(file, &mut word, REUSED_OFFSET) {
        Ok(()) if u64::from_le_bytes(word) > directory.version => MapError::Stale {
            path: path.to_owned(),
        },
        _ => MapError::Failed(error),
    }
}
