//! Answers as numpy arrays.

use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// What the bytes of an answer are.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Bool,
    Verdict,
}

impl Answer {
    fn dtype(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Verdict => "uint8",
        }
    }

    /// Returns the answers as a numpy array of their own memory.
    pub(crate) fn array<'py>(self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let numpy = py.import("numpy")?;
        if bytes.is_empty() {
            return numpy.call_method1("zeros", (0, self.dtype()));
        }
        numpy.call_method1("frombuffer", (PyByteArray::new(py, bytes), self.dtype()))
    }
}
