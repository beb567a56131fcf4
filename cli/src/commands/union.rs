//! `everseen union`: one store out of several.

use std::path::PathBuf;
use std::process::ExitCode;

use everseen::Merge;

use crate::commands::merge_command::{self, Terms};
use crate::error::CliError;
use crate::options::memory::Memory;
use crate::process::side_files;

/// Make a store that holds what several hold
///
/// The stores must have been made to fit each other: the easiest way is `everseen create --like`. They may be in use
/// meanwhile; what they hold when the union begins is in it. Of stores of fixed capacity all must have a multiple of
/// the pages of the smallest, as large as which the result becomes. Stores that grow are merged layer by layer. The
/// stores stay as they are, and what was committed by name is not taken over. Memory does not depend on their size.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store to make; never overwritten
    out: PathBuf,

    /// The stores to put together
    #[arg(required = true, value_name = "STORE")]
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
  everseen union --fpr 1e-3 all.ever a.ever b.ever       fuller than they were made for";

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
