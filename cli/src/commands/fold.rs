//! `everseen fold`: the same store in fewer pages.

use std::path::{Path, PathBuf};

use everseen::{Merge, OpenOptions};

use crate::commands::merge_command::{self, Terms};
use crate::error::CliError;
use crate::options::memory::Memory;
use crate::options::named_file::named_file;
use crate::options::units as size;
use crate::process::exit_code::ExitCode;
use crate::process::side_files;

/// Shrink a store that was created too large
///
/// The new store has fewer pages, and room for as many keys as keep the same rate in them. Its number of pages must
/// divide that of the original: `everseen create --foldable` creates stores that can be halved.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The store, of fixed capacity; stays as it is
    #[arg(value_parser = named_file())]
    store: PathBuf,

    /// The new store; never overwritten
    #[arg(value_parser = named_file())]
    out: PathBuf,

    /// Divide the number of pages by this
    #[arg(long, value_name = "F", value_parser = size::positive_count, required_unless_present = "pages")]
    factor: Option<u64>,

    /// The number of pages, instead of a factor
    #[arg(long, value_name = "N", value_parser = size::positive_count, conflicts_with = "factor")]
    pages: Option<u64>,

    #[command(flatten)]
    terms: Terms,

    #[command(flatten)]
    memory: Memory,
}

const EXAMPLES: &str = "\
Examples:
  everseen create big.ever --capacity 1e9 --foldable 6    can be halved 6 times
  everseen fold big.ever small.ever --factor 8
  everseen fold big.ever small.ever --factor 16 --fpr 1e-4";

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let Args {
        store,
        out,
        factor,
        pages,
        terms,
        memory,
    } = args;
    side_files::refuse(&[&store, &out], &[&store, &out])?;
    let options = memory.options();
    let factor = match (factor, pages) {
        (Some(factor), _) => factor,
        (None, Some(pages)) => whole_factor(&options, &store, pages)?,
        (None, None) => return Err(CliError::Usage("give --factor or --pages")),
    };
    merge_command::run(options, &terms, &out, |merge: Merge<'_>| {
        merge.fold(&store, &out, factor)
    })
}

/// Returns how many times as many pages the store has.
fn whole_factor(options: &OpenOptions, store: &Path, pages: u64) -> Result<u64, CliError> {
    let opened = options.open_read_only(store)?;
    let stats = opened.stats()?;
    opened.close()?;
    let has: u64 = stats.layers.iter().map(|layer| layer.pages).sum();
    match has.is_multiple_of(pages) {
        true => Ok(has / pages),
        false => Err(CliError::NoDivisor { pages, has }),
    }
}
