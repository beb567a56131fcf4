//! Which layer takes the next keys.

use crate::error::{Error, Result};
use crate::file::layout::{FIRST_PAGE, PAGE_LIMIT};
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
    // No reader takes a layer that lies further out. Only a forged capacity, or a file that was made as long, leads there.
    match end.checked_add(plan.pages) {
        Some(end_page) if end_page <= PAGE_LIMIT => Ok((index, Layer::behind(end, &plan))),
        _ => Err(Error::Full {
            capacity: file.key_limit,
        }),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Kind, Options};

    /// A capacity that no key ever filled: a hostile file may claim it.
    #[test]
    fn a_layer_that_no_reader_would_take_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().kind(Kind::Scalable).capacity(1000);
        let store = options.create(folder.path().join("store")).unwrap();
        store.insert_hash(1).unwrap();
        store.checkpoint().unwrap();
        let file = &store.engine.file;
        let mut superblock = file.read_meta().unwrap().superblock;
        let (index, layer) = target_layer(file, &superblock, 10_000).unwrap();
        assert!(index == 1 && layer.first_page + layer.pages <= PAGE_LIMIT);
        for power in 10..=63 {
            let last = superblock.layers.last_mut().unwrap();
            (last.capacity, last.keys) = (1 << power, 1 << power);
            match target_layer(file, &superblock, 1) {
                Ok((_, layer)) => assert!(layer.first_page + layer.pages <= PAGE_LIMIT, "{power}"),
                Err(error) => assert!(matches!(error, Error::Full { .. }), "{power}: {error:?}"),
            }
        }
        assert!(target_layer(file, &superblock, 1).is_err());
    }
}
