//! `everseen count`: how many different lines are there?

use std::time::Duration;

use everseen::CreateOptions;

use crate::error::CliError;
use crate::input::own_files::Purpose;
use crate::input::{Input, Items};
use crate::options::memory::Memory;
use crate::options::summary::Summing;
use crate::options::window::Window;
use crate::output::{Output, print, tell_json};
use crate::pipeline::Ending;
use crate::pipeline::insert_job::{Claiming, Repeats, claim_all};
use crate::process::exit_code::ExitCode;

/// Count the different lines; remember nothing
///
/// Prints their number alone. Needs no store: what was seen is kept in a temporary one, of some 5 bytes a line, which is
/// gone afterwards (TMPDIR names the folder). About one line in a million is taken for one seen before, so the number may
/// be too low by that.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    items: Items,

    #[command(flatten)]
    memory: Memory,

    #[command(flatten)]
    window: Window,

    #[command(flatten)]
    summing: Summing,
}

const EXAMPLES: &str = "\
Examples:
  everseen count urls.txt                        instead of sort -u urls.txt | wc -l
  everseen count --url links.txt                 URLs, whatever their spelling
  everseen count --json-key user hits.jsonl      different users in JSON records
  everseen count --csv-key 3 2026-*.csv.gz       values of a column, in several files";

pub fn run(mut args: Args) -> Result<ExitCode, CliError> {
    args.items.read_list()?;
    args.items.keys.ensure_complete()?;
    let folder = tempfile::tempdir().map_err(|source| CliError::System {
        action: "create a temporary folder",
        source,
    })?;
    let path = folder.path().join("count");
    let mut input = Input::open(&args.items, Purpose::new("count", &path))?;
    input.quiet = args.summing.quiet;
    let store = CreateOptions::new()
        .open_options(args.memory.options())
        .transactional(false)
        .create(&path)?;
    let claimed = claim_all(
        &store,
        input,
        Output::none(),
        &Claiming {
            commit_every: u64::MAX,
            memory: args.memory.bytes(),
            // No other process knows of the store.
            wait: Duration::ZERO,
            repeats: Repeats::LeaveOut,
            shows_seen: false,
            sieve: &args.window,
            path: &path,
        },
    )?;
    if args.summing.json {
        tell_json(&claimed.summary("count"))?;
    }
    if claimed.outcome.ending == Ending::Done {
        print(&format!("{}\n", claimed.outcome.tally.kept))?;
    }
    claimed.end(&path)
}
