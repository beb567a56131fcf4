//! Keys as Python has them: one, or many in any of the forms in which they come.

mod objects;
mod packed;
mod piece;
mod several;
mod source;

pub(crate) use packed::NumpyArray;
pub(crate) use piece::Gathered;
pub(crate) use several::StoreKey;
pub(crate) use source::{PIECE_KEYS, Source, numpy_kind};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyString};

use crate::errors;

/// One key, alive and readable without Python.
pub(crate) enum Key {
    Text(PyBackedStr),
    Bytes(PyBackedBytes),
    /// Of several values.
    Joined(Vec<u8>),
}

impl AsRef<[u8]> for Key {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Key {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self::Text(text.to_owned().try_into()?));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.to_owned().into()));
        }
        Err(refused(&object, "a key is str or bytes"))
    }
}

#[cold]
fn refused(object: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let class = object.get_type();
    let class = class.name().map_or("?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{expected}, not {class}"))
}

/// What becomes of rows without a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    Error,
    /// They are no keys, and their answer is "no".
    Skip,
}

impl Nulls {
    pub(crate) fn of(name: &str) -> PyResult<Self> {
        match name {
            "error" => Ok(Self::Error),
            "skip" => Ok(Self::Skip),
            _ => Err(PyValueError::new_err(format!(
                "nulls {name:?}: there are 'error' and 'skip'"
            ))),
        }
    }

    /// Refuses a null unless it is to be skipped.
    pub(crate) fn meet(self, py: Python<'_>, place: usize) -> PyResult<()> {
        match self {
            Self::Skip => Ok(()),
            Self::Error => Err(errors::own(
                py,
                "NullKeyError",
                format!(
                    "key {place} is null; with nulls='skip' nulls are left out, and their answer is False"
                ),
            )),
        }
    }
}
