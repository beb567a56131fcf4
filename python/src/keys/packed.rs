//! Numpy arrays of bytes of one width (`S`).

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};

use super::piece::{Content, Piece};
use super::source::{PIECE_BYTES, PIECE_KEYS};

/// What integers of 64 bits become: text of at most 20 characters.
const INTEGERS: &str = "S20";
const INTEGER_BYTES: usize = 20;

/// A numpy array, taken piece by piece.
pub(crate) struct NumpyArray<'py> {
    array: Bound<'py, PyAny>,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    /// What its items are made, if they are no bytes.
    dtype: Option<&'static str>,
    next: usize,
}

impl<'py> NumpyArray<'py> {
    pub(crate) fn of(array: Bound<'py, PyAny>) -> PyResult<Self> {
        let dimensions: usize = array.getattr("ndim")?.extract()?;
        if dimensions != 1 {
            return Err(PyValueError::new_err(format!(
                "an array of {dimensions} dimensions; keys come in one"
            )));
        }
        if array.hasattr("mask")? {
            // Its bytes would have the fill value where there is no key.
            return Err(PyTypeError::new_err(
                "a masked array; give the rows that have a key (`array.compressed()`)",
            ));
        }
        let width = array.getattr("dtype")?.getattr("itemsize")?.extract()?;
        Ok(Self {
            rows: array.len()?,
            array,
            width,
            dtype: None,
            next: 0,
        })
    }

    /// Of integers, in decimal.
    pub(crate) fn of_integers(array: Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            width: INTEGER_BYTES,
            dtype: Some(INTEGERS),
            ..Self::of(array)?
        })
    }

    /// Copies the next rows. So another thread may change the array meanwhile, and it need not be contiguous.
    pub(crate) fn next_rows(
        &mut self,
        dtype: Option<&str>,
    ) -> PyResult<Option<(usize, Bound<'py, PyBytes>)>> {
        let most = (PIECE_BYTES / self.width.max(1)).clamp(1, PIECE_KEYS);
        let rows = most.min(self.rows - self.next);
        if rows == 0 {
            return Ok(None);
        }
        let py = self.array.py();
        let slice = PySlice::new(py, self.next as isize, (self.next + rows) as isize, 1);
        let mut part = self.array.get_item(slice)?;
        if let Some(dtype) = dtype {
            part = part.call_method1("astype", (dtype,))?;
        }
        let bytes = part.call_method0("tobytes")?;
        self.next += rows;
        Ok(Some((rows, bytes.cast_into()?)))
    }

    pub(crate) fn next_piece(&mut self) -> PyResult<Option<Piece>> {
        let width = self.width;
        let Some((rows, bytes)) = self.next_rows(self.dtype)? else {
            return Ok(None);
        };
        let bytes = bytes.as_bytes().to_vec();
        Ok(Some(Piece {
            rows,
            places: None,
            content: Content::Packed { bytes, width },
        }))
    }
}
