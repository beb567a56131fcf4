//! The command `everseen`.

use std::process::ExitCode;

/// Ends the process in good order where there is no memory. A program that has the command in it, as the Python package has,
/// keeps an allocator of its own.
#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: everseen_cli::Allocator = everseen_cli::Allocator;

fn main() -> ExitCode {
    ExitCode::from(everseen_cli::run(std::env::args_os().collect()))
}
