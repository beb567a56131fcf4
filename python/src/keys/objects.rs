//! Keys that are objects of Python's.

use pyo3::prelude::*;

use super::piece::{Content, Piece};
use super::several::part;
use super::source::{PIECE_BYTES, PIECE_KEYS};
use super::{Key, Nulls, StoreKey};

/// Takes the next piece of what an iterator gives; `None` at its end. `before` rows came before.
/// They are keys, or parts of them.
pub(crate) fn next_piece<'py>(
    py: Python<'py>,
    items: &mut dyn Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    (nulls, is_part): (Nulls, bool),
    before: usize,
) -> PyResult<Option<Piece>> {
    let mut keys: Vec<Key> = Vec::new();
    let mut places: Option<Vec<u32>> = None;
    let (mut rows, mut bytes) = (0_u32, 0_usize);
    while (rows as usize) < PIECE_KEYS && bytes < PIECE_BYTES {
        let Some(item) = items.next() else {
            break;
        };
        let item = item?;
        if item.is_none() {
            nulls.meet(py, before + rows as usize)?;
            places.get_or_insert_with(|| (0..rows).collect());
        } else {
            let key = match is_part {
                true => part(item.as_borrowed())?,
                false => item.extract::<StoreKey>()?.0,
            };
            bytes += key.as_ref().len();
            keys.push(key);
            if let Some(places) = &mut places {
                places.push(rows);
            }
        }
        rows += 1;
    }
    Ok((rows > 0).then_some(Piece {
        rows: rows as usize,
        places,
        content: Content::Objects(keys),
    }))
}
