//! Taking structures out of their capsules, and arrays out of a stream.

use std::ffi::CStr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema, Released};

/// A structure of the interface, and the name of its capsules.
pub(super) trait InCapsule: Released {
    const NAME: &'static CStr;
}

impl InCapsule for ArrowSchema {
    const NAME: &'static CStr = c"arrow_schema";
}

impl InCapsule for ArrowArray {
    const NAME: &'static CStr = c"arrow_array";
}

impl InCapsule for ArrowArrayStream {
    const NAME: &'static CStr = c"arrow_array_stream";
}

/// Takes a structure out of its capsule, which is left empty.
pub(super) fn take<T: InCapsule>(capsule: &Bound<'_, PyAny>) -> PyResult<T> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let place = capsule.pointer_checked(Some(T::NAME))?.cast::<T>();
    // SAFETY: a capsule of this name holds an initialized structure of this type, as the interface lays down, and it
    // is ours: we hold the capsule, have just got it from the call that made it, and Python is attached. Its copy
    // there is made empty, so that only ours releases it.
    let taken = unsafe {
        let taken = place.read();
        (*place.as_ptr()).forget();
        taken
    };
    if taken.is_empty() {
        return Err(PyValueError::new_err(
            "the Arrow capsule is empty: it was read before",
        ));
    }
    Ok(taken)
}

impl ArrowSchema {
    /// Returns the type's name in the specification's notation.
    pub(super) fn format(&self) -> PyResult<String> {
        if self.is_empty() || self.format.is_null() {
            return Err(PyValueError::new_err("an Arrow schema without a format"));
        }
        // SAFETY: a schema that isn't released has a format, a string that ends in a zero.
        let format = unsafe { CStr::from_ptr(self.format) };
        Ok(format.to_string_lossy().into_owned())
    }
}

/// What a producer's function returned instead of an array.
#[derive(Debug)]
pub(super) struct StreamFailure {
    code: i32,
    message: String,
}

impl StreamFailure {
    pub(super) fn raise(self) -> PyErr {
        PyValueError::new_err(format!(
            "the Arrow stream failed with code {}: {}",
            self.code, self.message
        ))
    }
}

impl ArrowArrayStream {
    pub(super) fn schema(&mut self) -> Result<ArrowSchema, StreamFailure> {
        let mut schema = ArrowSchema::empty();
        let Some(get_schema) = self.get_schema else {
            return Err(self.failure(0));
        };
        // SAFETY: the producer's own function, on its stream, which isn't released, and on an empty structure for it
        // to fill.
        match unsafe { get_schema(self, &mut schema) } {
            0 => Ok(schema),
            code => Err(self.failure(code)),
        }
    }

    /// Returns the next chunk; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<ArrowArray>, StreamFailure> {
        let mut array = ArrowArray::empty();
        let Some(get_next) = self.get_next else {
            return Err(self.failure(0));
        };
        // SAFETY: as above.
        match unsafe { get_next(self, &mut array) } {
            0 => Ok((!array.is_empty()).then_some(array)),
            code => Err(self.failure(code)),
        }
    }

    fn failure(&mut self, code: i32) -> StreamFailure {
        let message = self.get_last_error.map(|get_last_error| {
            // SAFETY: the producer's own function, on its stream, which isn't released.
            unsafe { get_last_error(self) }
        });
        let message = match message {
            Some(message) if !message.is_null() => {
                // SAFETY: a string that ends in a zero, and lives until the next call.
                let message = unsafe { CStr::from_ptr(message) };
                message.to_string_lossy().into_owned()
            }
            _ => "no reason given".to_owned(),
        };
        StreamFailure { code, message }
    }
}
