//! `everseen apply`: bring a copy up to date.

use std::path::PathBuf;

use everseen::{OpenOptions, apply_delta};

use crate::commands::snapshot::finish;
use crate::error::CliError;
use crate::options::named_file::named_file;
use crate::options::timeout::Timeout;
use crate::output::format::many;
use crate::output::progress::Progress;
use crate::output::tell;
use crate::process::exit_code::ExitCode;
use crate::process::side_files;
use crate::process::signals::Signals;

/// Bring a copy of a store up to date with a delta
///
/// The delta must continue what the copy holds: apply deltas in the order in which they were made. The whole delta is
/// checked before anything is written. If writing is interrupted (a kill, a power cut, a full disk), the copy is
/// refused until you apply the same delta again; you can do that any number of times. No process may have the copy
/// open. A copy that this delta was the last to bring up to date stays as it is.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The delta, written by `everseen snapshot --since`
    #[arg(value_parser = named_file())]
    delta: PathBuf,

    /// The copy to bring up to date
    #[arg(value_parser = named_file())]
    copy: PathBuf,

    #[command(flatten)]
    timeout: Timeout,
}

const EXAMPLES: &str = "\
Examples:
  everseen apply tuesday.delta backup.ever
  for delta in deltas/*; do everseen apply \"$delta\" mirror.ever && rm \"$delta\" || break; done
  everseen apply tuesday.delta backup.ever && everseen verify backup.ever";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    side_files::refuse(&[&args.copy], &[&args.delta])?;
    let signals = Signals::catch()?;
    let mut bar = Progress::of_bytes();
    let watch = |progress: everseen::Progress| {
        bar.update_bytes(progress.done, progress.total);
        signals.go_on()
    };
    let options = args.timeout.apply(OpenOptions::new());
    let applied = apply_delta(&args.delta, &args.copy, &options, watch);
    drop(bar);
    let done = applied.map(|applied| {
        let copy = args.copy.display();
        let (from, to) = (applied.from, applied.to);
        let keys = many(applied.keys, "key");
        match applied.pages {
            0 => tell(format_args!("{copy} is at generation {to} already: {keys}")),
            pages => tell(format_args!(
                "{copy} went from generation {from} to {to}: {}, {keys}",
                many(pages, "page")
            )),
        }
    });
    finish(done, &signals)
}
