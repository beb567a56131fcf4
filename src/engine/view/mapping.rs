//! Maps what a superblock names, for a view.

use std::path::Path;
use std::sync::Arc;

use crate::engine::view::View;
use crate::file::{Header, Superblock};
use crate::filter::Filter;
use crate::fingerprint::pending_filter::PendingFilter;
use crate::page_io::map_error::MapError;
use crate::storefile::section_set::SectionSet;
use crate::sys::storage::StorageFile;

/// What a view maps of a store file.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) filter: Filter,
    pub(crate) sections: SectionSet,
}

/// Maps what a superblock names, and reuses what an older view has mapped.
pub(crate) fn map_all(
    file: &Arc<dyn StorageFile>,
    path: &Path,
    (superblock, header): (&Superblock, &Header),
    old: Option<&View>,
    pending: &PendingFilter,
) -> Result<Mapped, MapError> {
    let held = old.map(|old| &old.filter);
    let filter = Filter::map(&**file, path, (superblock, header), held, pending)?;
    let held = old.map(|old| &old.sections);
    Ok(Mapped {
        filter,
        sections: SectionSet::of(file, path, superblock, held)?,
    })
}
