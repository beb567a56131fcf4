//! `everseen union`: one store out of several.

use std::path::PathBuf;
use std::process::ExitCode;

use everseen::Merge;

use crate::commands::merge_command::{self, Terms};
use crate::error::CliError;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::process::side_files;

/// Merge stores into one that holds all of their keys
///
/// The stores must fit each other: create them with `everseen create --like`. They may be in use; the result holds what
/// they hold when the union begins. Stores of fixed capacity must have a multiple of the pages of the smallest, and the
/// result is as large as that one. Stores that grow are merged layer by layer. The stores stay as they are; commits of
/// writers are not carried over. Memory does not depend on their size.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The new store; never overwritten
    #[arg(value_parser = named_file())]
    out: PathBuf,

    /// The stores to merge
    #[arg(required = true, value_name = "STORE", value_parser = named_file())]
    stores: Vec<PathBuf>,

    #[command(flatten)]
    terms: Terms,

    #[command(flatten)]
    memory: Memory,
}

const EXAMPLES: &str = "\
Examples:
  everseen create tue.ever --like mon.ever               before the second crawl
  everseen union week.ever mon.ever tue.ever             after it
  everseen union --fpr 1e-3 all.ever a.ever b.ever       fuller than they were created for";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let Args {
        out,
        stores,
        terms,
        memory,
    } = args;
    let mut all = vec![&*out];
    all.extend(stores.iter().map(|store| &**store));
    side_files::refuse(&all, &all)?;
    let options = terms.apply(memory.options());
    merge_command::run(&options, &terms, &out, |merge: Merge<'_>| {
        merge.union(&out, &stores)
    })
}
