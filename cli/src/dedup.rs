//! `everseen dedup`: the lines never seen before.

use std::path::PathBuf;
use std::process::ExitCode;

use everseen::Kind;

use crate::claims::{Claimed, Repeats, claim_all};
use crate::error::CliError;
use crate::human;
use crate::input::{Input, Items};
use crate::memory::Memory;
use crate::output::{Output, tell};
use crate::policy::Policy;
use crate::side_files;
use crate::size;

/// The false-positive rate of a store that is made on the way.
const RATE: f64 = 1e-6;

/// Print the lines never seen before, and remember them
///
/// Each line is printed at its first occurrence, in the order of the input, byte for byte. Lines printed by an earlier
/// run on the same store are not printed again. A store that doesn't exist is made: it grows as needed, takes one
/// unseen line in a million for a seen one, and is transactional.
///
/// Killed at any point and started again on the same input, it loses no line: in a transactional store lines are
/// remembered only after they were printed (to a file: are safe on the disk). Lines printed after the last commit are
/// printed again, and of those the kill may have cut off the very last.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store; made if there is none
    store: PathBuf,

    #[command(flatten)]
    items: Items,

    /// Commit after this many lines, and at the end; sooner if the buffer is too small, or the input pauses
    #[arg(long, value_name = "N", default_value = "1M", value_parser = size::positive_count)]
    commit_every: u64,

    #[command(flatten)]
    memory: Memory,

    #[command(flatten)]
    policy: Policy,

    /// At the end, tell how many lines there were, how many new and seen, and how fast
    #[arg(long)]
    stats: bool,
}

const EXAMPLES: &str = "\
Examples:
  everseen dedup visited.ever urls.txt > fresh.txt       a file, against all that was seen before
  crawler | everseen dedup visited.ever | fetcher        in a stream
  everseen dedup --url visited.ever links.txt            URLs, each in its first spelling
  everseen dedup --stats all.ever 2024/*.txt > all.txt   several files as one
  find . -print0 | everseen dedup -0 files.ever          items with line ends in them";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    side_files::refuse_items(&args.store, &args.items, true)?;
    let input = Input::open(&args.items)?;
    let output = Output::stdout()?;
    input.ensure_apart_from(&output)?;
    let store = args
        .policy
        .apply(args.memory.options())
        .kind(Kind::Scalable)
        .fpr(RATE)
        .transactional(true)
        .open_or_create(&args.store)?;

    let claimed = claim_all(store, input, output, args.commit_every, Repeats::LeaveOut)?;
    if args.stats {
        let urls = args.items.urls.summary(claimed.outcome.tally.strays);
        tell(stats(&claimed, &urls));
    }
    claimed.outcome.end(&args.store)
}

fn stats(claimed: &Claimed, urls: &str) -> String {
    let (tally, elapsed) = (claimed.outcome.tally, claimed.elapsed);
    let pending = match claimed.pending {
        0 => String::new(),
        pending => format!(", {pending} pending in another process"),
    };
    format!(
        "{} lines, {} new, {} seen{pending}{urls}, {:.3} s, {} lines/s",
        tally.items,
        tally.kept,
        claimed.seen(),
        elapsed.as_secs_f64(),
        human::per_second(tally.items, elapsed),
    )
}
