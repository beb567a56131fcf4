//! A column in chunks, whoever has it.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::abi::{ArrowArrayStream, ArrowSchema};
use super::capsule::take;
use super::column::{Column, Layout};

/// The chunks of a column, taken one after the other, and some rows at a time.
pub(crate) struct Columns {
    layout: Layout,
    stream: Option<ArrowArrayStream>,
    /// The chunk at hand, and its next row.
    column: Option<Arc<Column>>,
    next: usize,
    total: Option<usize>,
}

fn layout(schema: &ArrowSchema) -> PyResult<Layout> {
    if !schema.dictionary.is_null() {
        return Err(PyTypeError::new_err(
            "an Arrow column that is dictionary-encoded, or categorical; cast it to strings or binary",
        ));
    }
    Layout::of(&schema.format()?)
}

impl Columns {
    /// Returns what an object offers; `None` if it knows nothing of Arrow.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let offer = |name: &str| match object.getattr_opt(name)? {
            Some(method) => Ok::<_, PyErr>(Some(method.call0()?)),
            None => Ok(None),
        };
        // An object that has both may have to put its chunks together for the second.
        if let Some(capsule) = offer("__arrow_c_stream__")? {
            return Self::of_stream(&capsule, object.len().ok()).map(Some);
        }
        match offer("__arrow_c_array__")? {
            Some(capsules) => Self::of_array(capsules.cast::<PyTuple>()?).map(Some),
            None => Ok(None),
        }
    }

    fn of_stream(capsule: &Bound<'_, PyAny>, total: Option<usize>) -> PyResult<Self> {
        let mut stream: ArrowArrayStream = take(capsule)?;
        let schema = capsule.py().detach(|| stream.schema());
        let schema = schema.map_err(super::capsule::StreamFailure::raise)?;
        Ok(Self {
            layout: layout(&schema)?,
            stream: Some(stream),
            column: None,
            next: 0,
            total,
        })
    }

    fn of_array(capsules: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let schema: ArrowSchema = take(&capsules.get_item(0)?)?;
        let layout = layout(&schema)?;
        let column = Column::of(take(&capsules.get_item(1)?)?, layout);
        let column = column.map_err(|bad| bad.raise(capsules.py()))?;
        Ok(Self {
            layout,
            stream: None,
            total: Some(column.rows),
            column: Some(Arc::new(column)),
            next: 0,
        })
    }

    pub(crate) fn expect_keys(&self) -> PyResult<()> {
        match self.layout {
            Layout::Integer => Err(PyTypeError::new_err(
                "a column of integers; keys are strings or binary, and 64-bit integers are hashes (insert_hashes)",
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn expect_hashes(&self) -> PyResult<()> {
        match self.layout {
            Layout::Integer | Layout::Null => Ok(()),
            _ => Err(PyTypeError::new_err(
                "a column of strings or binary; hashes are integers of 64 bits",
            )),
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
            let Some(stream) = &mut self.stream else {
                return Ok(None);
            };
            // The producer may wait for threads of its own, and those for Python.
            let array = py.detach(|| stream.next());
            let Some(array) = array.map_err(super::capsule::StreamFailure::raise)? else {
                self.stream = None;
                return Ok(None);
            };
            let column = Column::of(array, self.layout).map_err(|bad| bad.raise(py))?;
            self.column = Some(Arc::new(column));
        }
    }
}
