//! The shared part of `union`, `intersect` and `difference`: the stores, and a count instead of a new store.

pub(crate) mod difference;
pub(crate) mod intersect;
pub(crate) mod union;

use std::path::PathBuf;

use everseen::{Error, Merge, MergeReport};
use serde::Serialize;

use crate::commands::merge_command::{self, Terms};
use crate::error::CliError;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::output::format::many;
use crate::output::{print, print_json, tell};
use crate::process::exit_code::ExitCode;
use crate::process::side_files;
use crate::process::signals::Signals;

/// The part of the command line that names the stores.
#[derive(clap::Args)]
pub struct SetArgs {
    /// The new store, which is never overwritten; with --count one more of the stores
    #[arg(value_parser = named_file())]
    out: PathBuf,

    /// The stores
    #[arg(required_unless_present = "count", value_name = "STORE", value_parser = named_file())]
    stores: Vec<PathBuf>,

    /// Only print how many keys it would have (stores of kind fingerprint)
    #[arg(long, conflicts_with_all = ["fpr", "transactional", "no_transactional"])]
    count: bool,

    #[command(flatten)]
    terms: Terms,

    #[command(flatten)]
    memory: Memory,
}

/// What to do with the stores.
pub struct Operation {
    pub make: fn(Merge<'_>, &PathBuf, &[PathBuf]) -> everseen::Result<MergeReport>,
    pub count: fn(Merge<'_>, &[PathBuf]) -> everseen::Result<u64>,
}

#[derive(Serialize)]
struct Count {
    keys: u64,
}

pub fn run(args: SetArgs, operation: &Operation) -> Result<ExitCode, CliError> {
    let mut all = vec![args.out.clone()];
    all.extend(args.stores.iter().cloned());
    let paths: Vec<_> = all.iter().map(|path| &**path).collect();
    side_files::refuse(&paths, &paths)?;
    if args.count {
        return count(&args, &all, operation);
    }
    let options = args.memory.options();
    merge_command::run(options, &args.terms, &args.out, |merge| {
        (operation.make)(merge, &args.out, &args.stores)
    })
}

fn count(args: &SetArgs, stores: &[PathBuf], operation: &Operation) -> Result<ExitCode, CliError> {
    let signals = Signals::catch()?;
    let options = args.memory.options();
    let merge = Merge::new()
        .open_options(options)
        .watch(|_, _| signals.go_on());
    let keys = match ((operation.count)(merge, stores), signals.ending()) {
        (Err(Error::Cancelled), Some(status)) => {
            tell("everseen: stopped before all keys were counted");
            return Ok(ExitCode::from(status));
        }
        (counted, _) => counted?,
    };
    match args.terms.is_json() {
        true => print_json(&Count { keys })?,
        false => print(&format!("{}\n", many(keys, "key")))?,
    }
    Ok(ExitCode::SUCCESS)
}
