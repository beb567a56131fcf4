//! `everseen man`: manual pages.

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
    /// The folder; must exist
    folder: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  everseen man ~/.local/share/man/man1    then: man everseen-dedup";

pub fn run(args: &Args, command: Command) -> Result<ExitCode, CliError> {
    let written = clap_mangen::generate_to(command, &args.folder);
    written.map_err(|source| CliError::OutputFile {
        path: args.folder.clone(),
        source,
    })?;
    Ok(ExitCode::SUCCESS)
}
