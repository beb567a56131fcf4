//! `everseen dedup`: the lines never seen before.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use everseen::{Kind, Options, Store};

use crate::error::CliError;
use crate::input::{Input, Items};
use crate::options::memory::Memory;
use crate::options::on_damage::Policy;
use crate::options::units as size;
use crate::options::window::Window;
use crate::output::exact_file::Target;
use crate::output::format as human;
use crate::output::{Output, tell};
use crate::pipeline::deferred_claims as deferred;
use crate::pipeline::insert_job::{Claimed, Claiming, Repeats, claim_all};
use crate::pipeline::pending::Wait;
use crate::process::side_files;

/// The false-positive rate of a store that `dedup` creates.
const RATE: f64 = 1e-6;

/// Print the lines never seen before, and remember them
///
/// Each line is printed at its first occurrence, in the order of the input, byte for byte. Lines printed by an earlier
/// run on the same store are not printed again. A store that doesn't exist is made: it grows as needed, takes one
/// unseen line in a million for a seen one, and is transactional.
///
/// Any number of runs may share a transactional store. A line that another has claimed and not committed is waited for,
/// and no later line overtakes it (--wait); where some are still pending at the end, the exit status is 3. Any other
/// store takes one run of dedup at a time; any number of other commands may use it meanwhile.
///
/// Killed at any point and started again on the same input, it loses no line, whatever the kind of store: lines are
/// remembered only after they were printed (to a file: are safe on the disk; to a pipe: are in it). Lines printed after
/// the last commit are printed again, and of those the kill may have cut off the very last; so append to a file (>>),
/// for > empties it first. With -o FILE each line is in the file exactly once.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store; made if there is none
    store: PathBuf,

    #[command(flatten)]
    items: Items,

    /// Append to this file, not to standard output; it holds each line exactly once, however runs end
    ///
    /// The store keeps with each commit how long the file is. What a run that was killed has written after its last
    /// commit is cut off by the next run with this store and file; if the file is another by then, or shorter, that is
    /// an error. What is there before a run, or is appended after one that ended (a signal or an error is an end), stays.
    /// Until then let nothing else write to it. The store must be transactional; it has room for some 400 such files.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Commit after this many lines, and at the end; sooner if the buffer is too small, or after a second
    #[arg(long, value_name = "N", default_value = "1M", value_parser = size::positive_count)]
    commit_every: u64,

    #[command(flatten)]
    wait: Wait,

    #[command(flatten)]
    memory: Memory,

    #[command(flatten)]
    window: Window,

    #[command(flatten)]
    policy: Policy,

    /// At the end, tell how many lines there were, how many new and seen, what memory the buffers took, and how fast
    #[arg(long)]
    stats: bool,
}

const EXAMPLES: &str = "\
Examples:
  everseen dedup visited.ever urls.txt >> fresh.txt      a file, against all that was seen before
  everseen dedup -o fresh.txt visited.ever urls.txt      the same, each line once even if it is killed
  crawler | everseen dedup visited.ever | fetcher        in a stream
  everseen dedup --url visited.ever links.txt            URLs, each in its first spelling
  everseen dedup --stats all.ever 2024/*.txt >> all.txt  several files as one
  find . -print0 | everseen dedup -0 files.ever          items with line ends in them";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    side_files::refuse_items(&args.store, &args.items, args.output.is_none())?;
    if let Some(output) = &args.output {
        side_files::refuse(&[&args.store], &[output])?;
    }
    let input = Input::open(&args.items)?;
    let options = args
        .policy
        .apply(args.memory.options())
        .kind(Kind::Scalable)
        .fpr(RATE)
        .transactional(true);
    let (store, output) = match &args.output {
        Some(path) => open_with_file(options, &args.store, &input, path)?,
        None => {
            let output = Output::stdout()?;
            input.ensure_apart_from(output.file())?;
            (options.open_or_create(&args.store)?, output)
        }
    };
    // Held until the end.
    let _alone = match store.stats()?.transactional {
        true => None,
        false => Some(deferred::alone(&store, &args.store)?),
    };

    let claimed = claim_all(
        &store,
        input,
        output,
        &Claiming {
            commit_every: args.commit_every,
            wait: args.wait.wait,
            repeats: Repeats::LeaveOut,
            sieve: &args.window,
            path: &args.store,
        },
    )?;
    if args.stats {
        let urls = args.items.urls.summary(claimed.outcome.tally.strays);
        tell(stats(&claimed, &urls));
    }
    claimed.end(&args.store)
}

/// Opens a store and a file that should hold each line once.
fn open_with_file(
    options: Options,
    store_path: &Path,
    input: &Input,
    path: &Path,
) -> Result<(Store, Output), CliError> {
    let target = Target::new(path)?;
    input.ensure_apart_from(target.metadata().as_ref())?;
    let store = options
        .writer(&target.writer())
        .open_or_create(store_path)?;
    let sink = target.open(&store, store_path)?;
    Ok((store, Output::to_file(sink)?))
}

fn stats(claimed: &Claimed, urls: &str) -> String {
    let (tally, elapsed) = (claimed.outcome.tally, claimed.elapsed);
    let pending = claimed.pending_summary();
    let sweeps = claimed.sweeps_summary();
    format!(
        "{} lines, {} new, {} seen{pending}{urls}, {} of buffers, {:.3} s, {} lines/s{sweeps}",
        tally.items,
        tally.kept,
        claimed.seen(),
        human::bytes(claimed.buffer_bytes),
        elapsed.as_secs_f64(),
        human::per_second(tally.items, elapsed),
    )
}
