//! `everseen add`: remember lines.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use crate::commands::open_both;
use crate::error::CliError;
use crate::input::Items;
use crate::options::forgetting::At;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::options::on_damage::Policy;
use crate::options::summary::Summing;
use crate::options::window::Window;
use crate::output::Output;
use crate::output::format::{many, thousands};
use crate::pipeline::insert_job::{Claiming, Repeats, claim_all};
use crate::pipeline::pending::Wait;
use crate::process::exit_code::ExitCode;

/// Remember lines
///
/// Prints nothing, but for a summary on standard error with --stats, on a terminal, and where not all lines were added.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store; `everseen create` creates one
    #[arg(value_parser = named_file())]
    store: PathBuf,

    #[command(flatten)]
    items: Items,

    /// Counting stores: add only lines that are absent
    ///
    /// By default each line counts, and must be removed as often as it was added.
    #[arg(long)]
    unique: bool,

    #[command(flatten)]
    at: At,

    #[command(flatten)]
    wait: Wait,

    #[command(flatten)]
    memory: Memory,

    #[command(flatten)]
    window: Window,

    #[command(flatten)]
    policy: Policy,

    /// At the end, report how many lines there were and how many were new
    ///
    /// On a terminal it does so in any case.
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    stats: bool,

    #[command(flatten)]
    summing: Summing,
}

const EXAMPLES: &str = "\
Examples:
  everseen add blocked.ever blocklist.txt
  everseen add visited.ever old-urls.gz                       compressed lists are decompressed
  everseen add --stats blocked.ever blocklist.txt             and how many were new
  everseen add --json blocked.ever blocklist.txt 2> added.json
  everseen add --url --drop-www visited.ever old-urls.txt     URLs, whatever their spelling

Exit status: 0 done, 2 error, 3 done but for lines that another run still holds (--wait).";

pub fn run(mut args: Args) -> Result<ExitCode, CliError> {
    let (store, mut input) = open_both(
        "add",
        &args.store,
        &mut args.items,
        args.at.apply(args.policy.apply(args.memory.options())),
    )?;
    args.at.tell(&store)?;
    input.quiet = args.summing.quiet;
    if !input.quiet {
        args.at.warn(&store.stats()?, &args.store);
    }
    let reading = input.reading.clone();

    let repeats = match args.unique {
        true => Repeats::LeaveOut,
        false => Repeats::Count,
    };
    let claimed = claim_all(
        &store,
        input,
        Output::none(),
        &Claiming {
            commit_every: u64::MAX,
            memory: args.memory.bytes(),
            wait: args.wait.wait,
            repeats,
            shows_seen: false,
            sieve: &args.window,
            path: &args.store,
        },
    )?;
    let tally = claimed.outcome.tally;
    let urls = reading.summary(&tally) + &claimed.outcome.long_summary();
    let pending = claimed.pending_summary();
    let text = || {
        let lines = many(tally.items, "line");
        format!("{lines}, {} new{pending}{urls}", thousands(tally.kept))
    };
    if args.stats || args.summing.json || io::stderr().is_terminal() || !claimed.is_complete() {
        args.summing.tell(|| claimed.summary("add"), text)?;
    }
    claimed.end(&args.store)
}
