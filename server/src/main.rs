//! The server `everseen-server`, which `everseen serve` starts.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(everseen_server::run(std::env::args_os()))
}
