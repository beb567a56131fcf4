//! Warnings of what a program may have meant otherwise. Their classes are in `python/everseen/errors.py`.

use std::ffi::CString;
use std::path::Path;

use everseen::CloseReport;
use pyo3::prelude::*;

/// Warns that closing a store has dropped keys.
pub(crate) fn on_close(py: Python<'_>, path: &Path, report: CloseReport) -> PyResult<()> {
    let path = path.display();
    let CloseReport {
        dropped, abandoned, ..
    } = report;
    if dropped > 0 {
        let keys = keys(dropped);
        let message = format!(
            "{path}: {keys} dropped: the store is transactional, and closing it does not commit; call `commit`, or use \
             the store in a `with` statement, which commits when it ends without an exception"
        );
        warn(py, "UncommittedWarning", message, 1)?;
    }
    if abandoned > 0 {
        let keys = keys(abandoned);
        let message = format!(
            "{path}: {keys} dropped that processes had not committed when they ended: each process has a handle of its \
             own, also to a store that it inherits or unpickles, and commits by itself"
        );
        warn(py, "UncommittedWarning", message, 1)?;
    }
    Ok(())
}

fn keys(count: u64) -> String {
    match count {
        1 => "1 uncommitted key was".to_owned(),
        _ => format!("{count} uncommitted keys were"),
    }
}

/// Warns the same where no one can catch it: of a handle that the collector has taken.
pub(crate) fn of_dropped(path: &Path, report: CloseReport) {
    // There may be no interpreter left to warn with.
    let _ = Python::try_attach(|py| {
        // A collector may run while an exception is on its way.
        let pending = PyErr::take(py);
        if let Err(error) = on_close(py, path, report) {
            error.write_unraisable(py, None);
        }
        if let Some(pending) = pending {
            pending.restore(py);
        }
    });
}

/// Warns by one of the package's own classes, in the frame of Python that is this many frames away, counted from 1.
pub(crate) fn warn(py: Python<'_>, class: &str, message: String, away: i32) -> PyResult<()> {
    let category = py.import("everseen.errors")?.getattr(class)?;
    PyErr::warn(py, &category, &CString::new(message)?, away)
}
