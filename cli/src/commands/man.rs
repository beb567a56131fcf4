//! `everseen man`: manual pages.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;

use crate::error::CliError;

/// Write the manual pages into a folder
///
/// One page for the command, and one for each subcommand.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The folder; created if it does not exist
    folder: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  everseen man ~/.local/share/man/man1    then: man everseen-dedup
  sudo everseen man /usr/local/share/man/man1";

pub fn run(args: &Args, command: Command) -> Result<ExitCode, CliError> {
    let made = fs::create_dir_all(&args.folder);
    let written = made.and_then(|()| clap_mangen::generate_to(command, &args.folder));
    written.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => CliError::NotAFolder {
            path: args.folder.clone(),
        },
        _ => CliError::OutputFile {
            path: args.folder.clone(),
            source,
        },
    })?;
    Ok(ExitCode::SUCCESS)
}
