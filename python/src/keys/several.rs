//! Keys of several values, each in a column of its own, or in a tuple.
//!
//! The values are joined as the command joins those of `--json-key`, given several times. One value alone is the key itself.

use everseen_keys::joined::push_value;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString, PyTuple};

use super::piece::{Content, Piece};
use super::source::{PIECE_KEYS, Source};
use super::{Key, Nulls, refused};
use crate::arrow::BadColumn;

/// A key of a store: one value, or a tuple of several.
pub(crate) struct StoreKey(pub(crate) Key);

impl<'a, 'py> FromPyObject<'a, 'py> for StoreKey {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyTuple>() {
            Ok(values) => joined(&values).map(Self),
            Err(_) => object.extract().map(Self),
        }
    }
}

/// Returns the key of a tuple.
fn joined(values: &Bound<'_, PyTuple>) -> PyResult<Key> {
    if values.len() == 1 {
        return part(values.get_borrowed_item(0)?);
    }
    if values.is_empty() {
        return Err(PyValueError::new_err("an empty tuple is no key"));
    }
    let mut key = Vec::new();
    for value in values.iter_borrowed() {
        push_value(&mut key, part(value)?.as_ref());
    }
    Ok(Key::Joined(key))
}

/// Returns one of several values of a key: a key, or an integer in decimal.
pub(super) fn part(value: Borrowed<'_, '_, PyAny>) -> PyResult<Key> {
    // Most are. To ask an object for what it hasn't takes longer.
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return value.extract();
    }
    let is_integer = value.is_instance_of::<PyInt>() || value.hasattr("__index__")?;
    if is_integer && !value.is_instance_of::<PyBool>() {
        // Also one of numpy.
        let integer = value.call_method0(intern!(value.py(), "__index__"))?;
        return Ok(Key::Joined(integer.str()?.to_str()?.as_bytes().to_vec()));
    }
    Err(refused(&value, "a value of a key is str, bytes or int"))
}

/// Columns that are keys together, row by row.
pub(crate) struct Several<'py> {
    parts: Vec<Part<'py>>,
}

struct Part<'py> {
    source: Source<'py>,
    /// How many rows came before.
    before: usize,
    /// What is at hand, and its next row.
    piece: Option<Piece>,
    next: usize,
}

impl<'py> Part<'py> {
    /// Returns what is at hand, and its next row.
    fn at_hand(&self) -> (Option<&Piece>, usize) {
        (self.piece.as_ref(), self.next)
    }

    /// Returns how many rows are at hand; none at the end.
    fn rows(&mut self, py: Python<'py>, nulls: Nulls) -> PyResult<usize> {
        loop {
            if let Some(piece) = &self.piece {
                let rows = piece.rows - self.next;
                if rows > 0 {
                    return Ok(rows);
                }
                self.before += piece.rows;
            }
            self.next = 0;
            self.piece = self.source.next_piece(py, nulls, self.before)?;
            if self.piece.is_none() {
                return Ok(0);
            }
        }
    }
}

impl<'py> Several<'py> {
    /// Returns the keys of these columns.
    pub(super) fn of(columns: Vec<Bound<'py, PyAny>>) -> PyResult<Self> {
        let part = |column: Bound<'py, PyAny>| {
            Ok(Part {
                source: Source::of_part(&column)?,
                before: 0,
                piece: None,
                next: 0,
            })
        };
        let parts: PyResult<Vec<_>> = columns.into_iter().map(part).collect();
        Ok(Self { parts: parts? })
    }

    pub(super) fn total(&self) -> Option<usize> {
        self.parts.first()?.source.total()
    }

    /// Returns the next piece; `None` at the end.
    pub(super) fn next_piece(&mut self, py: Python<'py>, nulls: Nulls) -> PyResult<Option<Piece>> {
        let mut rows = Vec::with_capacity(self.parts.len());
        for part in &mut self.parts {
            rows.push(part.rows(py, nulls)?);
        }
        let count = rows.iter().copied().min().unwrap_or(0).min(PIECE_KEYS);
        if count == 0 {
            return match rows.iter().all(|rows| *rows == 0) {
                true => Ok(None),
                false => Err(self.other_lengths(&rows)),
            };
        }
        let pieces: Vec<_> = self.parts.iter().map(Part::at_hand).collect();
        let joined = py.detach(|| join(&pieces, count));
        for part in &mut self.parts {
            part.next += count;
        }
        joined.map(Some).map_err(|bad| bad.raise(py))
    }

    /// Some columns have ended, and others have not.
    fn other_lengths(&self, rows: &[usize]) -> PyErr {
        let ended = rows.iter().position(|rows| *rows == 0).unwrap_or(0);
        let length = self.parts[ended].before;
        PyValueError::new_err(format!(
            "columns of different lengths: column {ended} ends after {length} rows, and another one goes on"
        ))
    }
}

/// Joins the next rows of all parts, each with its next row. A row has a key if each part has a value there.
fn join(pieces: &[(Option<&Piece>, usize)], count: usize) -> Result<Piece, BadColumn> {
    let mut values = Vec::with_capacity(pieces.len());
    for (piece, next) in pieces {
        let mut found: Vec<Option<&[u8]>> = vec![None; count];
        if let Some(piece) = piece {
            piece.each(*next..next + count, |row, value| found[row] = Some(value))?;
        }
        values.push(found);
    }
    let (mut bytes, mut ends, mut places) = (Vec::new(), Vec::with_capacity(count), Vec::new());
    for row in 0..count {
        let start = bytes.len();
        let is_whole = values.iter().all(|column| {
            let Some(value) = column[row] else {
                return false;
            };
            match values.len() {
                1 => bytes.extend_from_slice(value),
                _ => push_value(&mut bytes, value),
            }
            true
        });
        if is_whole {
            ends.push(bytes.len());
            places.push(row as u32);
        } else {
            bytes.truncate(start);
        }
    }
    Ok(Piece {
        rows: count,
        places: (places.len() < count).then_some(places),
        content: Content::Joined { bytes, ends },
    })
}
