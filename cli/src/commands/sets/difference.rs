//! `everseen difference`: what one store has and others have not.

use crate::commands::sets::{self, Operation, SetArgs};
use crate::error::CliError;
use crate::process::exit_code::ExitCode;

/// Create a store of the keys that are in the first of several stores and in no other
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
  everseen difference new.ever tue.ever mon.ever         what came on Tuesday alone
  everseen difference --count tue.ever mon.ever          how many keys that is";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let difference = Operation {
        make: |merge, out, stores| merge.difference(out, stores),
        count: |merge, stores| merge.count_difference(stores),
    };
    sets::run(args.set, &difference)
}
