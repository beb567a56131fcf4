//! `--sieve`, `--window` and `--max-delay`, for every command that looks lines up.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use everseen::{Sieve, Store, Sweep};

use crate::options::units as size;
use crate::pipeline::window::Window as Waiting;

/// The part of the command line that says how lines wait for each other.
#[derive(Clone, clap::Args)]
pub struct Window {
    /// Whether lines wait for each other, so that one sweep over the filter answers many of them: where the filter is
    /// not in memory and the disk, as measured, makes that faster (auto); always; or never
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    sieve: When,

    /// Memory for lines that wait, at 13 bytes each; their text lies in an unlinked file beside the store [default: as
    /// much as --buffer, but at most 64M, or a fourth of it where that is more]. Taken in addition to --buffer
    #[arg(long, value_name = "SIZE", value_parser = size::positive_size)]
    window: Option<u64>,

    /// The longest that a line from a pipe waits for others, such as 200ms [default: about as long as a sweep takes].
    /// No line waits while the input pauses, or while lines come no faster than they are answered
    #[arg(long, value_name = "TIME", value_parser = size::duration)]
    max_delay: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

impl Window {
    /// Returns a sieve for a store.
    pub fn sieve<'s>(&self, store: &'s Store) -> Sieve<'s, ()> {
        let sieve = Sieve::new(store).sweep(match self.sieve {
            When::Auto => Sweep::Cheaper,
            When::Always => Sweep::Always,
            When::Never => Sweep::Never,
        });
        match self.window {
            Some(bytes) => sieve.memory(bytes),
            None => sieve,
        }
    }

    /// Returns a window for the lines of a command on the store at a path.
    pub fn lines(&self, store: &Path) -> Waiting {
        let folder = match store.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Waiting::new(
            folder.to_owned(),
            self.sieve == When::Always,
            self.max_delay,
        )
    }
}
