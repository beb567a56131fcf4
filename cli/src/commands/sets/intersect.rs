//! `everseen intersect`: what several stores have in common.

use crate::commands::sets::{self, Operation, SetArgs};
use crate::error::CliError;
use crate::process::exit_code::ExitCode;

/// Create a store of the keys that are in all of several stores
///
/// Only for stores of kind fingerprint that fit each other: create them with `everseen create --like`. They may be in
/// use, and stay as they are. A key counts by its fingerprint: two that share one, which happens at the rate of the
/// stores, are one key.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    set: SetArgs,
}

const EXAMPLES: &str = "\
Examples:
  everseen intersect both.ever mon.ever tue.ever
  everseen intersect --count mon.ever tue.ever           how many keys they have in common";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let intersection = Operation {
        make: |merge, out, stores| merge.intersection(out, stores),
        count: |merge, stores| merge.count_intersection(stores),
    };
    sets::run(args.set, &intersection)
}
