//! Hashes of 64 bits that the caller has computed.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::arrow::Columns;
use crate::keys::{Nulls, NumpyArray, PIECE_KEYS, numpy_kind};

/// Some consecutive hashes of a batch.
pub(crate) struct HashPiece {
    /// How many rows it has, nulls included.
    pub(crate) rows: usize,
    /// The places of the hashes among the rows, if some are null.
    pub(crate) places: Option<Vec<u32>>,
    pub(crate) hashes: Vec<u64>,
}

/// Where the hashes of a batch come from.
pub(crate) enum Hashes<'py> {
    Numpy(NumpyArray<'py>),
    Columns(Columns),
    Items(Bound<'py, PyIterator>),
}

impl<'py> Hashes<'py> {
    pub(crate) fn of(hashes: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Some(columns) = Columns::of(hashes)? {
            columns.expect_hashes()?;
            return Ok(Self::Columns(columns));
        }
        match numpy_kind(hashes)?.as_deref() {
            Some("i" | "u") => {
                let array = NumpyArray::of(hashes.clone())?;
                if array.width != 8 {
                    return Err(PyTypeError::new_err(format!(
                        "integers of {} bits; a hash has 64",
                        8 * array.width
                    )));
                }
                Ok(Self::Numpy(array))
            }
            Some("O") | None => Ok(Self::Items(hashes.try_iter()?)),
            Some(kind) => Err(PyTypeError::new_err(format!(
                "an array of kind {kind:?}; hashes are integers of 64 bits"
            ))),
        }
    }

    pub(crate) fn total(&self) -> Option<usize> {
        match self {
            Self::Numpy(array) => Some(array.rows),
            Self::Columns(columns) => columns.total(),
            Self::Items(_) => None,
        }
    }

    /// Returns the next piece; `None` at the end. `before` rows came before.
    pub(crate) fn next_piece(
        &mut self,
        py: Python<'py>,
        nulls: Nulls,
        before: usize,
    ) -> PyResult<Option<HashPiece>> {
        match self {
            Self::Numpy(array) => {
                let Some((rows, bytes)) = array.next_rows(Some("<u8"))? else {
                    return Ok(None);
                };
                let (words, _) = bytes.as_bytes().as_chunks::<8>();
                Ok(Some(HashPiece {
                    rows,
                    places: None,
                    hashes: words.iter().map(|word| u64::from_le_bytes(*word)).collect(),
                }))
            }
            Self::Columns(columns) => {
                let Some((column, rows)) = columns.next_rows(py, PIECE_KEYS)? else {
                    return Ok(None);
                };
                if let Some(place) = column.first_null(rows.clone()) {
                    nulls.meet(py, before + place - rows.start)?;
                }
                let mut hashes = Vec::with_capacity(rows.len());
                let places = column.integers(rows.clone(), &mut hashes);
                let places = places.map_err(|bad| bad.raise(py))?;
                Ok(Some(HashPiece {
                    rows: rows.len(),
                    places,
                    hashes,
                }))
            }
            Self::Items(items) => next_of_items(py, items, nulls, before),
        }
    }
}

fn next_of_items(
    py: Python<'_>,
    items: &mut Bound<'_, PyIterator>,
    nulls: Nulls,
    before: usize,
) -> PyResult<Option<HashPiece>> {
    let mut piece = HashPiece {
        rows: 0,
        places: None,
        hashes: Vec::new(),
    };
    for item in items.take(PIECE_KEYS) {
        let item = item?;
        let row = piece.rows as u32;
        if item.is_none() {
            nulls.meet(py, before + piece.rows)?;
            piece.places.get_or_insert_with(|| (0..row).collect());
        } else {
            piece.hashes.push(of_int(&item)?);
            if let Some(places) = &mut piece.places {
                places.push(row);
            }
        }
        piece.rows += 1;
    }
    Ok((piece.rows > 0).then_some(piece))
}

/// Returns the 64 bits of an integer, signed or not.
pub(crate) fn of_int(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(hash) = number.extract::<u64>() {
        return Ok(hash);
    }
    match number.extract::<i64>() {
        Ok(hash) => Ok(hash.cast_unsigned()),
        Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => Err(
            PyOverflowError::new_err("a hash is an integer of 64 bits: -2^63 to 2^64 - 1"),
        ),
        Err(_) => Err(PyTypeError::new_err("a hash is an integer of 64 bits")),
    }
}
