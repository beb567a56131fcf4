//! `everseen exempt`: exempt lines that a store mistakes for seen.

use std::path::PathBuf;

use everseen::hash::{HashedKey, KeyHasher};
use everseen::{ExemptReport, Store};
use serde::Serialize;

use crate::commands::open_both;
use crate::error::CliError;
use crate::input::Items;
use crate::options::forgetting::At;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::options::on_damage::Policy;
use crate::options::summary::Summing;
use crate::output::Output;
use crate::output::format::{plural, thousands};
use crate::pipeline::window::Window;
use crate::pipeline::{self, Ending, Job};
use crate::process::exit_code::ExitCode;

/// Lines exempted together: each call rewrites all exemptions.
const MAX_BATCH_KEYS: usize = 1 << 20;

/// Correct known false positives: lines that the store takes for seen, but that were never added
///
/// From now on they are unseen, until they are added. Each is kept exactly, in 8 bytes. Lines that were in fact added
/// are forgotten, unless that was so recent that the store can tell. Prints only a summary, on standard error.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store
    #[arg(value_parser = named_file())]
    store: PathBuf,

    #[command(flatten)]
    items: Items,

    #[command(flatten)]
    at: At,

    #[command(flatten)]
    memory: Memory,

    #[command(flatten)]
    policy: Policy,

    #[command(flatten)]
    summing: Summing,
}

const EXAMPLES: &str = "\
Examples:
  everseen check blocked.ever known-good.txt | everseen exempt blocked.ever
  echo https://example.org/ | everseen exempt visited.ever";

pub fn run(mut args: Args) -> Result<ExitCode, CliError> {
    let (store, mut input) = open_both(
        "exempt",
        &args.store,
        &mut args.items,
        args.at
            .apply_or_recorded(args.policy.apply(args.memory.options())),
    )?;
    args.at.tell(&store)?;
    input.quiet = args.summing.quiet;
    let reading = input.reading.clone();
    let mut exempting = Exempting {
        store,
        pending: Vec::new(),
        report: ExemptReport::default(),
    };
    let outcome = pipeline::run(
        input,
        &mut exempting,
        Output::none(),
        "exempt",
        Window::none(),
        None,
    )?;
    if outcome.ending != Ending::Unread {
        exempting.store.close()?;
    }
    let report = exempting.report;
    let tally = outcome.tally;
    args.summing.tell(
        || outcome.summary("exempt", Json::from(report)),
        || text(tally.items, report) + &reading.summary(&tally) + &outcome.long_summary(),
    )?;
    outcome.end(&args.store)
}

#[derive(Serialize)]
struct Json {
    exempted: u64,
    /// Exempt before.
    already: u64,
    /// Left as they are.
    present: u64,
}

impl From<ExemptReport> for Json {
    fn from(report: ExemptReport) -> Self {
        Json {
            exempted: report.exempted,
            already: report.already,
            present: report.present,
        }
    }
}

fn text(lines: u64, report: ExemptReport) -> String {
    let mut text = format!(
        "{} line{}, {} exempt from now on",
        thousands(lines),
        plural(lines),
        thousands(report.exempted)
    );
    if report.already > 0 {
        text += &format!(", {} exempt before", thousands(report.already));
    }
    if report.present > 0 {
        text += &format!(
            ", {} left as they are: they were added since the last checkpoint",
            thousands(report.present)
        );
    }
    text
}

struct Exempting {
    store: Store,
    pending: Vec<HashedKey>,
    report: ExemptReport,
}

impl Job for Exempting {
    fn hasher(&self) -> KeyHasher {
        self.store.hasher().clone()
    }

    fn judge(&mut self, items: &[HashedKey], keep: &mut Vec<bool>) -> everseen::Result<()> {
        self.pending.extend_from_slice(items);
        if self.pending.len() >= MAX_BATCH_KEYS {
            self.commit()?;
        }
        keep.resize(keep.len() + items.len(), false);
        Ok(())
    }

    fn commit(&mut self) -> everseen::Result<()> {
        let more = self.store.exempt(&self.pending)?;
        self.pending.clear();
        self.report.exempted += more.exempted;
        self.report.already += more.already;
        self.report.present += more.present;
        Ok(())
    }
}
