//! Where the keys of a batch come from.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyIterator, PyList, PyMemoryView, PyString, PyTuple};

use super::objects;
use super::packed::NumpyArray;
use super::piece::{Content, Piece};
use super::several::Several;
use super::{Key, Nulls};
use crate::arrow::Columns;

/// The most keys of a piece. Python's signals are looked at between pieces.
pub(crate) const PIECE_KEYS: usize = 1 << 16;

/// About the most bytes of a piece's keys, where they are copied or kept alive.
pub(crate) const PIECE_BYTES: usize = 16 << 20;

pub(crate) enum Source<'py> {
    List(Bound<'py, PyList>, usize),
    Items(Bound<'py, PyIterator>),
    Packed(NumpyArray<'py>),
    Columns(Columns),
    /// Values that are a part of a key.
    Parts(Bound<'py, PyIterator>),
    Several(Several<'py>),
}

impl<'py> Source<'py> {
    pub(crate) fn of(keys: &Bound<'py, PyAny>) -> PyResult<Self> {
        refuse_single(keys)?;
        if let Ok(list) = keys.cast::<PyList>() {
            return Ok(Self::List(list.clone(), 0));
        }
        if let Ok(tuple) = keys.cast::<PyTuple>() {
            if is_of_columns(tuple) {
                return Ok(Self::Several(Several::of(tuple.iter().collect())?));
            }
            return Ok(Self::List(tuple.to_list(), 0));
        }
        if let Some(columns) = Columns::of(keys)? {
            columns.expect_keys()?;
            return Ok(Self::Columns(columns));
        }
        match numpy_kind(keys)?.as_deref() {
            Some("S") => Ok(Self::Packed(NumpyArray::of(keys.clone())?)),
            Some("i" | "u" | "f" | "b" | "c" | "M" | "m" | "V") => Err(PyTypeError::new_err(
                "an array of numbers; keys are str or bytes, and 64-bit integers are hashes (insert_hashes)",
            )),
            _ => Ok(Self::Items(keys.try_iter()?)),
        }
    }

    /// Returns the keys of a table's columns.
    pub(crate) fn of_table(table: &Bound<'py, PyAny>, names: &Bound<'py, PyAny>) -> PyResult<Self> {
        let names = match names.is_instance_of::<PyString>() {
            true => PyList::new(table.py(), [names])?.into_any(),
            false => names.clone(),
        };
        let column = |name: PyResult<Bound<'py, PyAny>>| table.get_item(name?);
        let columns: Vec<_> = names.try_iter()?.map(column).collect::<PyResult<_>>()?;
        match columns.is_empty() {
            true => Err(PyValueError::new_err("columns: names none")),
            false => Ok(Self::Several(Several::of(columns)?)),
        }
    }

    /// Returns the values of a column that is a part of keys.
    pub(super) fn of_part(values: &Bound<'py, PyAny>) -> PyResult<Self> {
        refuse_single(values)?;
        if let Some(columns) = Columns::of_part(values)? {
            return Ok(Self::Columns(columns));
        }
        match numpy_kind(values)?.as_deref() {
            Some("S") => Ok(Self::Packed(NumpyArray::of(values.clone())?)),
            Some("i" | "u") => Ok(Self::Packed(NumpyArray::of_integers(values.clone())?)),
            Some("f" | "b" | "c" | "M" | "m" | "V") => Err(PyTypeError::new_err(
                "an array of numbers that are no integers; values of a key are str, bytes or int",
            )),
            _ => Ok(Self::Parts(values.try_iter()?)),
        }
    }

    /// Returns how many rows there are, where that is known.
    pub(crate) fn total(&self) -> Option<usize> {
        match self {
            Self::List(list, _) => Some(list.len()),
            Self::Packed(array) => Some(array.rows),
            Self::Columns(columns) => columns.total(),
            Self::Items(_) | Self::Parts(_) => None,
            Self::Several(several) => several.total(),
        }
    }

    /// Returns the next piece; `None` at the end. `before` rows came before.
    pub(crate) fn next_piece(
        &mut self,
        py: Python<'py>,
        nulls: Nulls,
        before: usize,
    ) -> PyResult<Option<Piece>> {
        match self {
            Self::List(list, next) => {
                // It may grow or shrink meanwhile.
                let list = &*list;
                let items = &mut (*next..).map_while(|place| list.get_item(place).ok().map(Ok));
                let piece = objects::next_piece(py, items, (nulls, false), before)?;
                *next += piece.as_ref().map_or(0, |piece| piece.rows);
                Ok(piece)
            }
            Self::Items(items) => objects::next_piece(py, items, (nulls, false), before),
            Self::Parts(values) => objects::next_piece(py, values, (nulls, true), before),
            Self::Several(several) => several.next_piece(py, nulls),
            Self::Packed(array) => array.next_piece(),
            Self::Columns(columns) => {
                let Some((column, rows)) = columns.next_rows(py, PIECE_KEYS)? else {
                    return Ok(None);
                };
                if let Some(place) = column.first_null(rows.clone()) {
                    nulls.meet(py, before + place - rows.start)?;
                }
                Ok(Some(Piece {
                    rows: rows.len(),
                    places: None,
                    content: Content::Column(column, rows),
                }))
            }
        }
    }
}

/// Returns whether a tuple holds columns, rather than keys.
fn is_of_columns(tuple: &Bound<'_, PyTuple>) -> bool {
    let is_column = |item: &Bound<'_, PyAny>| {
        let is_key = item.is_instance_of::<PyString>()
            || item.is_instance_of::<PyBytes>()
            || item.is_instance_of::<PyTuple>();
        !is_key && item.hasattr("__iter__").unwrap_or(false)
    };
    !tuple.is_empty() && tuple.iter().all(|item| is_column(&item))
}

/// A single key is a sequence too, of characters or of numbers, and never what the caller means.
fn refuse_single(keys: &Bound<'_, PyAny>) -> PyResult<()> {
    let single = keys.is_instance_of::<PyString>()
        || keys.is_instance_of::<PyBytes>()
        || keys.is_instance_of::<PyByteArray>()
        || keys.is_instance_of::<PyMemoryView>();
    if single {
        return Err(PyTypeError::new_err(
            "one key, and many are expected: put it in a list, or call the method for one key",
        ));
    }
    Ok(())
}

/// Returns the kind of a numpy array's items, as `dtype.kind` has it; `None` if this is none, or has no items.
pub(crate) fn numpy_kind(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let array = object.py().import("numpy")?.getattr("ndarray")?;
    if !object.is_instance(&array)? {
        return Ok(None);
    }
    // Without values, numpy calls an array one of floats.
    if object.len().is_ok_and(|rows| rows == 0) {
        return Ok(None);
    }
    let kind = object.getattr("dtype")?.getattr("kind")?;
    Ok(Some(kind.extract()?))
}

const _: () = {
    const fn worked_on_without_python<T: Send + Sync>() {}
    worked_on_without_python::<Key>();
    worked_on_without_python::<Piece>();
};
