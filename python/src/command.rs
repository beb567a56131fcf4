//! The command `everseen`, for `python -m everseen`.

use std::ffi::OsString;
use std::process;

use pyo3::prelude::*;

/// Runs the command with these arguments, behind its name, and ends the process.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) {
    py.detach(|| {
        let name = OsString::from("everseen");
        let all = std::iter::once(name).chain(arguments);
        // Without a way back: signals that came meanwhile were the command's, and Python would see them again.
        process::exit(everseen_cli::run(all.collect()).into())
    })
}
