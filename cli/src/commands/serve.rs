//! `everseen serve`: hands over to the server, which is a program of its own.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::error::CliError;
use crate::process::exit_code::ExitCode;

/// The server's program.
const SERVER: &str = "everseen-server";

/// Serve a folder of stores to Redis clients
///
/// Runs the program `everseen-server`, which lies beside this one or on the PATH, with these arguments. Clients of
/// RedisBloom use its stores: BF.*, CF.* and EV.* commands, each key one file of the folder. `everseen serve --help` shows
/// the server's options.
#[derive(clap::Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub struct Args {
    /// What the server is given, such as --dir FOLDER
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  everseen serve --dir filters                          on 127.0.0.1:6380
  redis-cli -p 6380 BF.ADD visited https://example.org/
  everseen check filters/visited.ever urls.txt          the same store, from the command";

pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let mut command = Command::new(program());
    command.args(&args.arguments);
    hand_over(command).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => CliError::NoServer,
        _ => CliError::System {
            action: "start everseen-server",
            source,
        },
    })
}

/// Returns the server that lies beside this command, or else its name, which is looked for on the PATH.
fn program() -> PathBuf {
    let beside = env::current_exe().ok().and_then(|own| {
        let name = format!("{SERVER}{}", env::consts::EXE_SUFFIX);
        Some(own.parent()?.join(name))
    });
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| SERVER.into())
}

/// Becomes another program, whose signals and exit status are then its own.
#[cfg(unix)]
fn hand_over(mut command: Command) -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;

    Err(command.exec())
}

/// Runs another program, and returns its exit status.
#[cfg(not(unix))]
fn hand_over(mut command: Command) -> io::Result<ExitCode> {
    let code = command
        .status()?
        .code()
        .and_then(|code| code.try_into().ok());
    Ok(ExitCode::from(code.unwrap_or(2)))
}
