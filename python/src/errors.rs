//! The library's errors as Python's exceptions, whose classes are in `python/everseen/errors.py`.

use std::path::Path;

use everseen::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T> {
    #[inline]
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}

/// Returns the exception for an error.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).unwrap_or_else(|failure| failure)
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = format!("{}Error", variant(error));
    let fields = PyDict::new(py);
    set_fields(error, &fields)?;
    make(
        py,
        (
            class.as_str(),
            error.to_string(),
            path(error),
            number(error),
        ),
        &fields,
    )
}

/// Returns an exception of one of the package's own classes.
#[cold]
pub(crate) fn own(py: Python<'_>, class: &str, message: String) -> PyErr {
    let made = make(py, (class, message, None, None), &PyDict::new(py));
    made.unwrap_or_else(|failure| failure)
}

fn make(
    py: Python<'_>,
    what: (&str, String, Option<&Path>, Option<i32>),
    fields: &Bound<'_, PyDict>,
) -> PyResult<PyErr> {
    let (class, message, path, number) = what;
    let maker = py.import("everseen.errors")?.getattr("_make")?;
    let made = maker.call1((class, message, path, number, fields))?;
    Ok(PyErr::from_value(made))
}

/// The variant's name, as its `Debug` form begins with it: a list here could miss a new one.
fn variant(error: &Error) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// The operating system's number, where it gave one.
fn number(error: &Error) -> Option<i32> {
    match error {
        Error::Io { source, .. } => source.raw_os_error(),
        _ => None,
    }
}

fn path(error: &Error) -> Option<&Path> {
    match error {
        Error::NotFound { path }
        | Error::AlreadyExists { path }
        | Error::EmptyFile { path }
        | Error::Emptied { path, .. }
        | Error::DanglingLink { path }
        | Error::MissingFolder { path }
        | Error::IsFolder { path }
        | Error::NotAFile { path }
        | Error::InTheWay { path }
        | Error::LeftoverLog { path }
        | Error::OtherMoment { path, .. }
        | Error::ManyNames { path, .. }
        | Error::OtherName { path }
        | Error::Moved { path }
        | Error::Replaced { path }
        | Error::PermissionDenied { path, .. }
        | Error::ReadOnlyDisk { path, .. }
        | Error::NameTooLong { path, .. }
        | Error::NoSpace { path, .. }
        | Error::NoRoomForBuffer { path, .. }
        | Error::OutOfMemory { path, .. }
        | Error::Io { path, .. }
        | Error::Locked { path }
        | Error::OtherLayout { path, .. }
        | Error::Format { path, .. }
        | Error::Log { path, .. }
        | Error::SharedMemory { path, .. }
        | Error::Delta { path, .. }
        | Error::Mismatch { path, .. }
        | Error::WrongKind { path, .. }
        | Error::NeverForgets { path, .. }
        | Error::Overfull { path, .. }
        | Error::KeysInLog { path, .. }
        | Error::Busy { path, .. }
        | Error::NoLocks { path } => Some(path),
        _ => None,
    }
}

/// Sets what a program may want to decide by; the message has all of it.
fn set_fields(error: &Error, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    match error {
        Error::Full { capacity } => fields.set_item("capacity", capacity),
        Error::TransactionTooLarge { quota } => fields.set_item("quota", quota),
        Error::InvalidOption { option, .. } => fields.set_item("option", option),
        Error::NoRoomForBuffer { bytes, .. } => fields.set_item("bytes", bytes),
        Error::KeysInLog { keys, .. } => fields.set_item("keys", keys),
        Error::Busy { process, .. } => fields.set_item("process", process),
        Error::Mismatch { other, field, .. } => {
            fields.set_item("other", other.as_os_str())?;
            fields.set_item("field", field)
        }
        Error::Overfull {
            keys,
            expected,
            got,
            ..
        } => {
            fields.set_item("keys", keys)?;
            fields.set_item("expected", expected)?;
            fields.set_item("got", got)
        }
        _ => Ok(()),
    }
}
