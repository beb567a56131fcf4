//! Checks the pages of layers in a file that nothing changes: a copy, or a store that is held still.

use crate::error::Result;
use crate::file::copy::digest_of;
use crate::page::Binding;
use crate::sizing::Cell;
use crate::storefile::page_scan::{self, PagePlace, Pages, places};
use crate::storefile::progress::Watched;
use crate::storefile::still_file::StillFile;

/// The store that pages belong to, and the cells that they consist of.
pub(super) type Bound = (Binding, Cell);

pub(super) fn bound_of(still: StillFile<'_>) -> Bound {
    (still.header.binding(), still.header.kind.cell())
}

/// Checks all pages and returns their digest.
pub(crate) fn check_pages(still: StillFile<'_>, watched: &mut Watched<'_>) -> Result<u64> {
    let bound = bound_of(still);
    let mut pages = Pages::new(still.file, still.path);
    let mut digest = 0_u64;
    for place in places(&still.superblock.layers) {
        let PagePlace { layer, number, .. } = place;
        let bytes = pages.page(number, layer.end_page())?;
        page_scan::check(still.path, bound, place, bytes)?;
        digest = digest.wrapping_add(digest_of(number, bytes));
        watched.page()?;
    }
    Ok(digest)
}

/// Checks one page, by its layer and its place in that. A page of a layer that is not there is none.
pub(crate) fn check_page(still: StillFile<'_>, index: u32, page: u64) -> Result<()> {
    let Some(layer) = still.superblock.layers.get(index as usize) else {
        return Ok(());
    };
    let number = layer.first_page.saturating_add(page);
    let mut pages = Pages::new(still.file, still.path);
    let bytes = pages.page(number, number + 1)?;
    let place = PagePlace {
        index,
        layer,
        number,
    };
    page_scan::check(still.path, bound_of(still), place, bytes)
}
