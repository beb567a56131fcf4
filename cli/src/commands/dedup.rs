//! `everseen dedup`: the lines never seen before.

use std::path::{Path, PathBuf};

use everseen::{CreateOptions, OpenOptions, Store};

use crate::error::CliError;
use crate::input::own_files::Purpose;
use crate::input::reading::Reading;
use crate::input::{Input, Items};
use crate::options::forgetting::At;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::options::new_store::NewStore;
use crate::options::on_damage::Policy;
use crate::options::summary::Summing;
use crate::options::units as size;
use crate::options::window::Window;
use crate::output::exact_file::{Longer, Target};
use crate::output::format as human;
use crate::output::{Output, print, sum_up, tell, tell_json};
use crate::pipeline::Ending;
use crate::pipeline::claimed::Claimed;
use crate::pipeline::deferred_claims as deferred;
use crate::pipeline::insert_job::{Claiming, Repeats, claim_all};
use crate::pipeline::pending::Wait;
use crate::process::exit_code::ExitCode;
use crate::process::{handle, side_files};

/// Print the lines never seen before, and remember them
///
/// Prints each line at its first occurrence, in the order of the input, byte for byte. Does not print lines that an
/// earlier run on the same store has printed. If the store does not exist, creates a transactional one that grows as
/// needed and takes one unseen line in a million for a seen one (--capacity and --fpr choose otherwise).
///
/// Any number of runs may share a transactional store. If another run has claimed a line and not committed it, this run
/// waits for it, and no later line overtakes that line (--wait). A store that is not transactional takes one run of dedup
/// at a time; any number of other commands may use it meanwhile.
///
/// A run that is killed at any point and repeated on the same input loses no line, with stores of any kind: a line is
/// remembered only after it was printed (to a file: after it is safe on the disk; to a pipe: after all but the last 64K
/// has been read). The repeated run prints again what the killed one printed after its last commit, and the kill may
/// have cut off the very last line. So append to a file with >>; > empties it first. With -o FILE each line is in the
/// file exactly once.
///
/// If the reader of the output closes it early (`| head`), the run ends with success. It keeps what it has committed,
/// which may be more lines than the reader took, and remembers nothing that came later.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store; created if it does not exist, or is an empty file
    #[arg(value_parser = named_file())]
    store: PathBuf,

    #[command(flatten)]
    items: Items,

    /// Print the repeats instead: new lines are remembered, and not printed
    ///
    /// Repeats are the lines that an earlier run or an earlier line has brought.
    #[arg(long, conflicts_with = "output")]
    seen: bool,

    /// Print only how many new lines there are (with --seen: repeats)
    ///
    /// They are remembered before the number is printed. `everseen count` needs no store.
    #[arg(short, long, conflicts_with = "output")]
    count: bool,

    /// Append to this file instead; it holds each line exactly once
    ///
    /// That holds however runs end: each commit records the length of the file in the store. The next run with this
    /// store and file cuts off what a killed run has written after its last commit. If the file was replaced or
    /// shortened meanwhile, or has more than the store knows of (--output-longer), that is an error. Everything that
    /// was there before a run, or was appended after a run that ended (by itself, by a signal or with an error), stays.
    /// Until then, let nothing else write to the file. The store must be transactional; it has room for some 400 such
    /// files.
    #[arg(short, long, value_name = "FILE", value_parser = named_file())]
    output: Option<PathBuf>,

    /// If the file of -o has more than the store knows: cut it, or keep it
    ///
    /// It is cut to what the store knows, or kept whole and appended to. That happens if the store was restored from a
    /// copy that is older than the file, or if another store has written to the file. Then the lines that the store
    /// doesn't know may be good ones, and without this option the run is refused. With `keep`, lines of them may be
    /// printed again. What a killed run has left is cut off in any case.
    #[arg(long, value_name = "WHAT", requires = "output")]
    output_longer: Option<Longer>,

    /// Commit after this many lines, and at the end
    ///
    /// Earlier if the buffer is too small, or after a second.
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

    #[command(flatten)]
    at: At,

    #[command(flatten)]
    new_store: NewStore,

    /// At the end, report lines, new and seen ones, memory and speed
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    stats: bool,

    #[command(flatten)]
    summing: Summing,
}

const EXAMPLES: &str = "\
Examples:
  everseen dedup visited.ever urls.txt >> fresh.txt      a file, against all that was seen before
  everseen dedup -o fresh.txt visited.ever urls.txt      the same, each line once, even after a kill
  crawler | everseen dedup visited.ever | fetcher        in a stream
  everseen dedup --url visited.ever links.txt            URLs, each in its first spelling
  everseen dedup --json-key url visited.ever pages.jsonl JSON records, by their url
  everseen dedup --csv-key id rows.ever rows.csv         CSV records, by their column id
  everseen dedup --stats all.ever 2024/*.gz >> all.txt   several files as one, compressed or not
  everseen dedup --json visited.ever urls.txt 2> run.json > fresh.txt
  everseen dedup --seen visited.ever urls.txt            the repeats instead
  everseen dedup --capacity 50M visited.ever urls.txt    a new store of fixed size: faster
  everseen dedup --forget-after 30d due.ever urls.txt    again if last printed over 30 days ago
  everseen dedup --grows-to 1e9 visited.ever urls.txt    a new store that grows, but no further
  find . -print0 | everseen dedup -0 files.ever          items with line ends in them

Exit status: 0 done, 1 nothing printed for --key, 2 error, 3 done but for lines that another
run still holds (--wait).";

pub fn run(mut args: Args) -> Result<ExitCode, CliError> {
    args.items.read_list()?;
    let prints = args.output.is_none() && !args.count;
    side_files::refuse_items(&args.store, &args.items, prints)?;
    if let Some(output) = &args.output {
        side_files::refuse(&[&args.store], &[output])?;
    }
    let mut input = Input::open(&args.items, Purpose::new("dedup", &args.store))?;
    input.quiet = args.summing.quiet;
    let handle = args.at.apply(args.policy.apply(args.memory.options()));
    let is_new = !args.store.exists() || handle::is_empty_file(&args.store);
    if is_new {
        args.items.keys.ensure_complete()?;
        args.new_store.ensure_possible(&args.at)?;
    }
    let options = args.new_store.apply(CreateOptions::new());
    let options = options.label(&input.reading.label());
    let (store, output) = match &args.output {
        Some(path) => open_with_file(options, handle, &args, &mut input, path)?,
        None => {
            let output = match args.count {
                true => Output::none(),
                false => Output::stdout()?.quiet(args.summing.quiet),
            };
            input.ensure_apart_from(output.file())?;
            (open(options, handle, &args.store, &mut input)?, output)
        }
    };
    args.at.tell(&store)?;
    let reading = input.reading.clone();
    let stats_before = store.stats()?;
    let compared = args.new_store.compare(&store, &stats_before, &args.store)?;
    if !args.summing.quiet {
        match is_new {
            true => args.new_store.warn_of_limits(&stats_before, &args.store),
            false => compared.tell(),
        }
        args.at.warn(&stats_before, &args.store);
    }
    // Held until the end.
    let _alone = match stats_before.transactional {
        true => None,
        false => Some(deferred::alone(&store, &args.store)?),
    };
    let claimed = claim_all(
        &store,
        input,
        output,
        &Claiming {
            commit_every: args.commit_every,
            memory: args.memory.bytes(),
            wait: args.wait.wait,
            repeats: Repeats::LeaveOut,
            shows_seen: args.seen,
            sieve: &args.window,
            path: &args.store,
        },
    )?;
    sum_up_and_end(&args, claimed, &reading)
}

/// Reports what was done, and returns the exit status.
fn sum_up_and_end(args: &Args, claimed: Claimed, reading: &Reading) -> Result<ExitCode, CliError> {
    if args.stats {
        let strays = reading.summary(&claimed.outcome.tally);
        let urls = strays + &claimed.outcome.long_summary();
        sum_up(stats(&claimed, &urls))?;
    }
    let seen = claimed.seen();
    if args.count && claimed.outcome.ending == Ending::Done {
        let count = if args.seen {
            seen
        } else {
            claimed.outcome.tally.kept
        };
        print(&format!("{count}\n"))?;
    }
    if args.summing.json {
        tell_json(&claimed.summary("dedup"))?;
    }
    // One key asks a question, as in `check`.
    let shown = if args.seen {
        seen
    } else {
        claimed.outcome.tally.kept
    };
    let is_no = !args.items.given.is_empty() && shown == 0;
    match claimed.is_complete() && is_no {
        true => Ok(ExitCode::from(1)),
        false => claimed.end(&args.store),
    }
}

/// Opens a store, or creates it, and reads the input as it says.
fn open(
    options: CreateOptions,
    handle: OpenOptions,
    path: &Path,
    input: &mut Input,
) -> Result<Store, CliError> {
    let opened = options.open_options(handle).open_or_create(path);
    let store = opened.map_err(CliError::of_first_argument)?;
    input.follow(&store, path)?;
    Ok(store)
}

/// Opens a store and a file that should hold each line once.
fn open_with_file(
    options: CreateOptions,
    handle: OpenOptions,
    args: &Args,
    input: &mut Input,
    path: &Path,
) -> Result<(Store, Output), CliError> {
    let target = Target::new(path)?;
    target.refuse_store(&args.store)?;
    input.purpose.refuse_output(path)?;
    input.ensure_apart_from(target.metadata().as_ref())?;
    let handle = handle.writer(&target.writer());
    let store = open(options, handle, &args.store, input)?;
    let opened = target.open(&store, &args.store, args.output_longer)?;
    if let Some(notice) = opened.notice.filter(|_| !args.summing.quiet) {
        tell(format_args!("everseen: {notice}"));
    }
    Ok((store, Output::to_file(opened.sink)?))
}

fn stats(claimed: &Claimed, urls: &str) -> String {
    let (tally, elapsed) = (claimed.outcome.tally, claimed.elapsed);
    let pending = claimed.pending_summary();
    let sweeps = claimed.sweeps_summary();
    format!(
        "{}, {} new, {} seen{pending}{urls}, {} of buffers, {:.3} s, {} lines/s{sweeps}",
        human::many(tally.items, "line"),
        human::thousands(tally.kept),
        human::thousands(claimed.seen()),
        human::bytes(claimed.buffer_bytes),
        elapsed.as_secs_f64(),
        human::thousands(human::per_second(tally.items, elapsed)),
    )
}
