//! Reads sections through to check them.

use std::path::Path;

use crate::error::{Error, Result};
use crate::file::Section;
use crate::file::layout::page_offset;
use crate::storefile::meta::section_error;
use crate::sys::storage::StorageFile;

/// Checks sections as they lie in a file.
pub(crate) fn check_sections<'a>(
    file: &dyn StorageFile,
    path: &Path,
    sections: impl IntoIterator<Item = &'a Section>,
) -> Result<()> {
    let check = |section: &Section| {
        let offset = page_offset(section.first_page);
        check_section_at(file, path, section, offset)
    };
    sections.into_iter().try_for_each(check)
}

/// Checks a section whose pages begin at `offset`.
pub(crate) fn check_section_at(
    file: &dyn StorageFile,
    path: &Path,
    section: &Section,
    offset: u64,
) -> Result<()> {
    let checked = section.check_at(file, offset);
    let checked = checked.map_err(|error| section_error(path, error))?;
    checked.map(drop).map_err(|source| Error::Format {
        path: path.to_owned(),
        source,
    })
}
