//! Which layer takes the next keys.

use crate::error::{Error, Result};
use crate::file::layout::FIRST_PAGE;
use crate::file::{Layer, Superblock};
use crate::page::PAGE_BYTES;
use crate::storefile::store_file::StoreFile;

/// Returns the layer that takes `count` more keys: the last one if it has room, otherwise a new one behind everything
/// ever written, where pages are blank. Pages of removed sections are not blank.
pub(crate) fn target_layer(
    file: &StoreFile,
    superblock: &Superblock,
    count: u64,
) -> Result<(u32, Layer)> {
    let layers = &superblock.layers;
    let last = layers.last();
    let index = layers.len() as u32;
    let Some(growth) = file.header.growth() else {
        let Some(layer) = last else {
            unreachable!("a fixed store has its layer from the beginning");
        };
        return Ok((0, *layer));
    };
    if let Some(layer) = last
        && layer.room() >= count
    {
        return Ok((index - 1, *layer));
    }
    let capacity = file.key_limit;
    let full = |_| Error::Full { capacity };
    let capacity = growth.next_capacity(last.map(|layer| layer.capacity), count);
    let plan = growth.layer(index, capacity.map_err(full)?).map_err(full)?;
    let length = file.raw.length();
    let length = length.map_err(|error| Error::io("measure", &file.place, error))?;
    let end = length.div_ceil(PAGE_BYTES as u64).max(FIRST_PAGE);
    let layer = Layer::behind(end, &plan);
    assert!(layer.room() >= count, "{layer:?} for {count} keys");
    // Pages of its place that are not blank would be taken for its own.
    assert!(last.is_none_or(|last| last.end_page() <= layer.first_page));
    Ok((index, layer))
}
