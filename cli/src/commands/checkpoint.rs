//! `everseen checkpoint`: bring the log into the filter file.

use std::path::PathBuf;

use crate::error::CliError;
use crate::options::forgetting::At;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::options::on_damage::Policy;
use crate::process::exit_code::ExitCode;

/// Move everything from the log into the filter file, which is then the whole store
///
/// A store that forgets drops what it has forgotten by the time of its last lines, or by --at TIME.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    /// Also merge all runs of a fingerprint store into one
    ///
    /// That is as much work as writing the whole store. A run of few lines adds to the store what it brought, and
    /// leaves the rest as it is. Runs are merged as they grow, so nothing requires this. It makes the file some percent
    /// smaller.
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    at: At,

    #[command(flatten)]
    memory: Memory,

    #[command(flatten)]
    policy: Policy,
}

const EXAMPLES: &str = "\
Examples:
  everseen checkpoint visited.ever && cp visited.ever backup/
  everseen checkpoint --full visited.ever               one run, for years of look-ups";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let options = args.policy.apply(args.memory.options());
    let store = args.at.apply_or_recorded(options).open(&args.store)?;
    args.at.tell(&store)?;
    match args.full {
        true => store.checkpoint_full()?,
        false => store.checkpoint()?,
    }
    store.close()?;
    Ok(ExitCode::SUCCESS)
}
