//! `everseen union`: one store out of several.

use crate::commands::sets::{self, Operation, SetArgs};
use crate::error::CliError;
use crate::process::exit_code::ExitCode;

/// Merge stores into one that holds all of their keys
///
/// The stores must fit each other: create them with `everseen create --like`. They may be in use; the result holds what
/// they hold when the union begins. Stores of fixed capacity must have a multiple of the pages of the smallest, and the
/// result is as large as that one. Stores that grow are merged layer by layer, stores of fingerprints one by one. The
/// stores stay as they are; commits of writers are not carried over. Memory does not depend on their size.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    set: SetArgs,
}

const EXAMPLES: &str = "\
Examples:
  everseen create tue.ever --like mon.ever               before the second crawl
  everseen union week.ever mon.ever tue.ever             after it
  everseen union --fpr 1e-3 all.ever a.ever b.ever       fuller than they were created for
  everseen union --count mon.ever tue.ever               how many keys it would have";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let union = Operation {
        make: |merge, out, stores| merge.union(out, stores),
        count: |merge, stores| merge.count_union(stores),
    };
    sets::run(args.set, &union)
}
