//! `everseen check`: which lines were seen?

use std::path::PathBuf;

use everseen::hash::{HashedKey, KeyHasher};
use everseen::{OpenOptions, Sieve, Store};
use serde::Serialize;

use crate::error::CliError;
use crate::input::own_files::Purpose;
use crate::input::{Input, Items};
use crate::options::forgetting::At;
use crate::options::named_file::named_file;
use crate::options::on_damage::Policy;
use crate::options::timeout::Timeout;
use crate::options::window::Window;
use crate::output::{Numbers, Output, print, tell_json};
use crate::pipeline::window::Gather;
use crate::pipeline::{self, Ending, Job};
use crate::process::exit_code::ExitCode;
use crate::process::side_files;

/// Print the lines seen before; remember nothing
///
/// Like grep, exits with status 0 if it printed a line, 1 if it printed none, and 2 after an error. Other runs may add
/// lines meanwhile: those are seen from then on.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    #[command(flatten)]
    items: Items,

    /// Print the lines that were not seen before
    #[arg(short = 'v', long)]
    invert: bool,

    /// Print only how many lines there are
    #[arg(short, long)]
    count: bool,

    /// Print nothing: the exit status answers
    #[arg(short, long, conflicts_with_all = ["count", "line_number", "json"])]
    quiet: bool,

    /// Print the number of each line before it, from 1, as grep does
    ///
    /// `7:the line`; with several files their names too.
    #[arg(short = 'n', long, conflicts_with = "count")]
    line_number: bool,

    /// At the end, print a summary as one line of JSON on standard error
    ///
    /// docs/json.md describes it.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,

    #[command(flatten)]
    policy: Policy,

    #[command(flatten)]
    window: Window,

    #[command(flatten)]
    timeout: Timeout,
}

const EXAMPLES: &str = "\
Examples:
  everseen check blocked.ever hosts.txt                    the hosts that are blocked
  everseen check -v visited.ever < links.txt > todo.txt    the links not visited yet
  everseen check --url -v visited.ever links.txt           the same, of URLs in any spelling
  everseen check -n blocked.ever hosts.txt                 where they stand in the file
  everseen check -c blocked.ever hosts.txt                 how many are blocked
  everseen check -q blocked.ever --key example.org && echo blocked

Exit status: 0 a line was printed, 1 none, 2 error.";

pub fn run(mut args: Args) -> Result<ExitCode, CliError> {
    args.items.read_list()?;
    let prints = !args.count && !args.quiet;
    side_files::refuse_items(&args.store, &args.items, prints)?;
    let mut input = Input::open(&args.items, Purpose::new("check", &args.store))?;
    input.quiet = args.quiet;
    let output = match prints {
        true => Output::stdout()?.number(match (args.line_number, args.items.files.len()) {
            (false, _) => Numbers::None,
            (true, 0 | 1) => Numbers::Line,
            (true, _) => Numbers::FileAndLine,
        }),
        false => Output::none(),
    };
    input.ensure_apart_from(output.file())?;
    let options = args
        .policy
        .apply(args.timeout.apply(OpenOptions::new().follow(true)));
    let opened = args.at.apply(options).open_read_only(&args.store);
    let store = opened.map_err(CliError::of_first_argument)?;
    args.at.tell(&store)?;
    input.follow(&store, &args.store)?;

    let mut lookup = Lookup {
        store: &store,
        sieve: args.window.sieve(&store),
        invert: args.invert,
    };
    let outcome = pipeline::run(
        input,
        &mut lookup,
        output,
        if args.invert { "unseen" } else { "seen" },
        args.window.lines(&args.store),
        None,
    )?;
    drop(lookup);
    store.close()?;
    if args.count && outcome.ending == Ending::Done {
        print(&format!("{}\n", outcome.tally.kept))?;
    }
    if args.json {
        let matched = outcome.tally.kept;
        let inverted = args.invert;
        tell_json(&outcome.summary("check", JsonMatched { matched, inverted }))?;
    }
    match outcome.ending {
        Ending::Done if outcome.tally.kept == 0 => Ok(ExitCode::from(1)),
        _ => outcome.end(&args.store),
    }
}

#[derive(Serialize)]
struct JsonMatched {
    /// The lines that were printed, or would have been.
    matched: u64,
    /// Whether those are the lines that were not seen.
    inverted: bool,
}

struct Lookup<'s> {
    store: &'s Store,
    sieve: Sieve<'s, ()>,
    invert: bool,
}

impl Job for Lookup<'_> {
    fn hasher(&self) -> KeyHasher {
        self.store.hasher().clone()
    }

    fn judge(&mut self, items: &[HashedKey], keep: &mut Vec<bool>) -> everseen::Result<()> {
        if !self.sieve.is_empty() {
            let invert = self.invert;
            let each = |(), seen| keep.push(seen != invert);
            return self.sieve.contains(items.len(), each);
        }
        let seen = self.store.contains_batch(items)?;
        keep.extend(seen.into_iter().map(|seen| seen != self.invert));
        Ok(())
    }

    fn sieve(&mut self) -> Option<&mut dyn Gather> {
        Some(&mut self.sieve)
    }
}
