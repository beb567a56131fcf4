//! Maps what a superblock names, for a view.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bloom::layer_pages::LayerPages;
use crate::engine::view::View;
use crate::error::{Error, Result};
use crate::file::layout::{REUSED_OFFSET, page_offset};
use crate::file::{DirectoryRef, Header, Superblock};
use crate::fingerprint::directory_file::read_directory;
use crate::fingerprint::segment::absence_filter::AbsenceFilter;
use crate::fingerprint::segment::pages::SegmentPages;
use crate::page::space::Space;
use crate::page::{Binding, PAGE_BYTES};
use crate::storefile::section_set::SectionSet;
use crate::sys::storage::{StorageFile, read_exact_at};

/// What a view maps of a store file.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) layers: Vec<Arc<LayerPages>>,
    /// Only in a store of fingerprints, which has no layers.
    pub(crate) segments: Option<Arc<SegmentPages>>,
    pub(crate) sections: SectionSet,
}

/// Why a superblock's pages could not be mapped.
#[derive(Debug)]
pub(crate) enum MapError {
    /// Checkpoints wrote over the directory while it was read. A newer superblock names another.
    Stale {
        path: PathBuf,
    },
    Failed(Error),
}

impl From<Error> for MapError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What a caller tells that does not try again.
impl From<MapError> for Error {
    fn from(error: MapError) -> Self {
        match error {
            MapError::Failed(error) => error,
            MapError::Stale { path } => Self::Busy {
                path,
                what: "checkpoints that overtake the reading of the directory",
                process: None,
            },
        }
    }
}

/// Maps what a superblock names, and reuses what an older view has mapped.
pub(crate) fn map_all(
    file: &Arc<dyn StorageFile>,
    path: &Path,
    (superblock, header): (&Superblock, &Header),
    old: Option<&View>,
    take_absence: impl FnOnce(u64) -> Option<Arc<AbsenceFilter>>,
) -> Result<Mapped, MapError> {
    let held = old.map_or(&[][..], |old| &old.layers);
    let binding = header.binding();
    let layers = map_layers(&**file, path, superblock, binding, held)?;
    let segments = match (header.space(), superblock.directory) {
        (Some(space), Some(directory)) => {
            let held = old.and_then(|old| old.segments.as_ref());
            Some(map_segments(
                &**file,
                path,
                &directory,
                (space, binding),
                held,
                take_absence,
            )?)
        }
        _ => None,
    };
    let held = old.map(|old| &old.sections);
    Ok(Mapped {
        layers,
        segments,
        sections: SectionSet::of(file, path, superblock, held)?,
    })
}

/// Reads a directory and maps its segments. The map reaches to the end of the file, and serves later directories too.
fn map_segments(
    file: &dyn StorageFile,
    path: &Path,
    directory: &DirectoryRef,
    bound: (Space, Binding),
    held: Option<&Arc<SegmentPages>>,
    take_absence: impl FnOnce(u64) -> Option<Arc<AbsenceFilter>>,
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
    Ok(Arc::new(
        pages.with_absence(take_absence(directory.version)),
    ))
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

fn map_layers(
    file: &dyn StorageFile,
    path: &Path,
    superblock: &Superblock,
    binding: Binding,
    held: &[Arc<LayerPages>],
) -> Result<Vec<Arc<LayerPages>>> {
    let mut layers = Vec::with_capacity(superblock.layers.len());
    for (index, layer) in (0_u32..).zip(&superblock.layers) {
        let pages = match held.get(index as usize) {
            Some(pages) => Arc::clone(pages),
            None => Arc::new(
                LayerPages::map(index, layer, binding, file)
                    .map_err(|error| Error::io("map a layer of", path, error))?,
            ),
        };
        pages.update(layer);
        layers.push(pages);
    }
    Ok(layers)
}
