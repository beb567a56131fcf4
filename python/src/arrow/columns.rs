//! A column in chunks, from any library.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::ffi::ArrayReader;
use pyo3_arrow::{PyArray, PyArrayReader};

use super::column::{BadColumn, Column, bad, expect_rows};
use super::integers::as_text;

/// What the rows of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Keys,
    Hashes,
    Nulls,
    /// Nothing: its type says no more than that.
    Empty,
    /// Integers that are a part of a key, in decimal.
    Numbers,
}

impl Kind {
    /// Returns what a column of this type is, or one that is a part of a key. `rows`: how many, if that is known.
    fn of(data_type: &DataType, is_part: bool, rows: Option<usize>) -> PyResult<Self> {
        // Libraries guess types from values: pandas may call a column without rows Float64.
        if rows == Some(0) && !matches!(data_type, DataType::Struct(_)) {
            return Ok(Self::Empty);
        }
        match data_type {
            data_type if is_part && data_type.is_integer() => Ok(Self::Numbers),
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Ok(Self::Keys),
            DataType::Int64 | DataType::UInt64 => Ok(Self::Hashes),
            DataType::Null => Ok(Self::Nulls),
            DataType::Dictionary(_, values) => Self::of(values, is_part, rows),
            DataType::Struct(_) => Err(PyTypeError::new_err(
                "a table, or a column of structs; give one of its columns, or name several with columns=[...]",
            )),
            other => Err(PyTypeError::new_err(format!(
                "an Arrow column of type {other}; keys are strings or binary, hashes are 64-bit integers (cast it)"
            ))),
        }
    }
}

/// The chunks of a column, taken one after the other, and some rows at a time.
pub(crate) struct Columns {
    kind: Kind,
    stream: Option<Box<dyn ArrayReader + Send>>,
    /// The chunk at hand, and its next row.
    column: Option<Arc<Column>>,
    next: usize,
    /// What of a chunk of numbers is no text yet.
    numbers: Option<ArrayRef>,
    total: Option<usize>,
}

/// Runs what takes a producer's structures over. It asserts of them what it can, in the producer's C types: a structure
/// that fails there is damaged, or was taken out of its capsule before.
fn taken_over<T, E>(
    py: Python<'_>,
    take: impl FnOnce() -> Result<T, E>,
    raise: impl FnOnce(E) -> PyErr,
) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(take)) {
        Ok(taken) => taken.map_err(raise),
        Err(_) => Err(bad("its structure is, or it was read before").raise(py)),
    }
}

fn stream_failed(error: ArrowError) -> PyErr {
    let reason = match error {
        // What the producer says.
        ArrowError::CDataInterface(reason) => reason,
        other => other.to_string(),
    };
    PyValueError::new_err(format!("the Arrow stream failed: {reason}"))
}

impl Columns {
    /// Returns what an object offers; `None` if it knows nothing of Arrow.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        Self::offered(object, false)
    }

    /// Does the same for a column that is a part of a key.
    pub(crate) fn of_part(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        Self::offered(object, true)
    }

    fn offered(object: &Bound<'_, PyAny>, is_part: bool) -> PyResult<Option<Self>> {
        // An object that has both may have to put its chunks together for the second.
        if object.hasattr("__arrow_c_stream__")? {
            Self::of_stream(object, is_part).map(Some)
        } else if object.hasattr("__arrow_c_array__")? {
            Self::of_array(object, is_part).map(Some)
        } else {
            Ok(None)
        }
    }

    fn of_stream(object: &Bound<'_, PyAny>, is_part: bool) -> PyResult<Self> {
        let reader = taken_over(
            object.py(),
            || object.extract::<PyArrayReader>()?.into_reader(),
            |error| error,
        )?;
        let total = object.len().ok();
        Ok(Self {
            kind: Kind::of(reader.field().data_type(), is_part, total)?,
            stream: Some(reader),
            column: None,
            next: 0,
            numbers: None,
            total,
        })
    }

    fn of_array(object: &Bound<'_, PyAny>, is_part: bool) -> PyResult<Self> {
        let py = object.py();
        let array = taken_over(py, || object.extract::<PyArray>(), |error| error)?;
        let total = Some(array.array().len());
        let mut columns = Self {
            kind: Kind::of(array.field().data_type(), is_part, total)?,
            stream: None,
            total,
            column: None,
            next: 0,
            numbers: None,
        };
        columns.take(array.array()).map_err(|bad| bad.raise(py))?;
        Ok(columns)
    }

    pub(crate) fn expect_keys(&self) -> PyResult<()> {
        match self.kind {
            Kind::Hashes => Err(PyTypeError::new_err(
                "a column of integers; keys are strings or binary, and 64-bit integers are hashes (insert_hashes)",
            )),
            Kind::Keys | Kind::Nulls | Kind::Empty | Kind::Numbers => Ok(()),
        }
    }

    pub(crate) fn expect_hashes(&self) -> PyResult<()> {
        match self.kind {
            Kind::Keys | Kind::Numbers => Err(PyTypeError::new_err(
                "a column of strings or binary; hashes are integers of 64 bits",
            )),
            Kind::Hashes | Kind::Nulls | Kind::Empty => Ok(()),
        }
    }

    pub(crate) fn total(&self) -> Option<usize> {
        self.total
    }

    /// Returns the next rows, `most` at most; `None` at the end.
    pub(crate) fn next_rows(
        &mut self,
        py: Python<'_>,
        most: usize,
    ) -> PyResult<Option<(Arc<Column>, Range<usize>)>> {
        loop {
            if let Some(column) = &self.column
                && self.next < column.rows
            {
                let start = self.next;
                self.next = column.rows.min(start + most);
                return Ok(Some((Arc::clone(column), start..self.next)));
            }
            (self.column, self.next) = (None, 0);
            if let Some(numbers) = self.numbers.take() {
                let count = numbers.len().min(most);
                let text = as_text(&numbers.slice(0, count));
                self.column = Some(Arc::new(Column::of(&text).map_err(|bad| bad.raise(py))?));
                let rest = numbers.slice(count, numbers.len() - count);
                self.numbers = (!rest.is_empty()).then_some(rest);
                continue;
            }
            let Some(array) = self.next_chunk(py)? else {
                self.stream = None;
                return Ok(None);
            };
            self.take(&array).map_err(|bad| bad.raise(py))?;
        }
    }

    /// Takes the next chunk up.
    fn take(&mut self, array: &ArrayRef) -> Result<(), BadColumn> {
        match self.kind {
            Kind::Numbers => {
                expect_rows(array)?;
                // Each of its slices has all categories: they become text once.
                self.numbers = Some(match array.data_type() {
                    DataType::Dictionary(..) => as_text(array),
                    _ => Arc::clone(array),
                });
            }
            Kind::Empty if array.is_empty() => {}
            Kind::Empty => return Err(bad("it has rows, and its length is 0")),
            Kind::Keys | Kind::Hashes | Kind::Nulls => {
                self.column = Some(Arc::new(Column::of(array)?))
            }
        }
        Ok(())
    }

    fn next_chunk(&mut self, py: Python<'_>) -> PyResult<Option<ArrayRef>> {
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        let next = || stream.next().transpose();
        // The producer may wait for threads of its own, and those for Python.
        taken_over(py, || py.detach(next), stream_failed)
    }
}
