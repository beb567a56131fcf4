//! `everseen remove`: forget lines.

use std::path::PathBuf;
use std::time::Instant;

use everseen::hash::{HashedKey, KeyHasher};
use everseen::{BatchError, Store};
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
use crate::output::format::{many, thousands};
use crate::pipeline::insert_job::room_within;
use crate::pipeline::window::Window;
use crate::pipeline::{self, Job};
use crate::process::exit_code::ExitCode;

/// Forget lines (stores of kind counting or fingerprint)
///
/// Lines that are absent change nothing. Remove only lines that were added: the store takes other lines for seen at its
/// false positive rate, and removing such a line damages or removes lines that were added. Prints only a summary, on
/// standard error.
///
/// A store of kind fingerprint is a set: a line is gone after one removal. Another line goes with it if the store could
/// not tell the two apart, which happens at the false positive rate. A store of kind counting takes each line out once: a
/// line that was added twice is there until it has been removed twice.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store, of kind fingerprint or counting
    ///
    /// `everseen create` creates one of kind fingerprint without a capacity.
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
  everseen remove blocked.ever pardoned.txt
  echo example.org | everseen remove blocked.ever
  everseen remove --url live.ever gone.txt     URLs, whatever their spelling";

pub fn run(mut args: Args) -> Result<ExitCode, CliError> {
    let (store, mut input) = open_both(
        "remove",
        &args.store,
        &mut args.items,
        args.at
            .apply_or_recorded(args.policy.apply(args.memory.options())),
    )?;
    args.at.tell(&store)?;
    input.quiet = args.summing.quiet;
    let reading = input.reading.clone();
    // Refuses an unsuitable store before anything is read.
    let none: [HashedKey; 0] = [];
    store.remove_batch(&none).map_err(everseen::Error::from)?;

    let mut removal = Removing {
        quota: store.uncommitted()?.most,
        removed: 0,
        since: None,
        store,
    };
    let outcome = pipeline::run(
        input,
        &mut removal,
        Output::none(),
        "removed",
        Window::none(),
        None,
    )?;
    removal.store.close()?;
    let tally = outcome.tally;
    let urls = reading.summary(&tally);
    let absent = outcome.judged() - tally.kept;
    let long = outcome.long_summary();
    let removed = tally.kept;
    let json = || outcome.summary("remove", JsonRemoved { removed, absent });
    let text = || {
        let lines = many(tally.items, "line");
        let [removed, absent] = [removed, absent].map(thousands);
        format!("{lines}, {removed} removed, {absent} absent{urls}{long}")
    };
    args.summing.tell(json, text)?;
    outcome.end(&args.store)
}

#[derive(Serialize)]
struct JsonRemoved {
    removed: u64,
    absent: u64,
}

struct Removing {
    store: Store,
    /// Maximum number of removals that may be uncommitted, in a transactional store.
    quota: u64,
    /// Removed since the last commit.
    removed: u64,
    /// The time at which the first of them was removed.
    since: Option<Instant>,
}

impl Job for Removing {
    fn hasher(&self) -> KeyHasher {
        self.store.hasher().clone()
    }

    fn judge(&mut self, items: &[HashedKey], keep: &mut Vec<bool>) -> everseen::Result<()> {
        let first = keep.len();
        let outcome = BatchError::append(self.store.remove_batch(items), keep);
        self.removed += keep[first..].iter().filter(|removed| **removed).count() as u64;
        self.since = self.since.or((self.removed > 0).then(Instant::now));
        outcome
    }

    fn room(&self) -> usize {
        usize::try_from(room_within(self.quota, self.removed)).unwrap_or(usize::MAX)
    }

    fn uncommitted_since(&self) -> Option<Instant> {
        self.since
    }

    fn commit(&mut self) -> everseen::Result<()> {
        self.since = None;
        if std::mem::take(&mut self.removed) > 0 {
            self.store.commit()?;
        }
        Ok(())
    }
}
