//! `everseen checkpoint`: bring the log into the filter file.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::CliError;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::options::on_damage::Policy;

/// Move everything from the log into the filter file, which is then the whole store
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    #[command(flatten)]
    memory: Memory,

    #[command(flatten)]
    policy: Policy,
}

const EXAMPLES: &str = "\
Examples:
  everseen checkpoint visited.ever && cp visited.ever backup/";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let options = args.policy.apply(args.memory.options());
    let store = options.open(&args.store)?;
    store.checkpoint()?;
    store.close()?;
    Ok(ExitCode::SUCCESS)
}
