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
    /// Let lines wait for each other: auto, always or never
    ///
    /// See `everseen help windows`.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    sieve: When,

    /// Memory for lines that wait, in addition to --buffer
    ///
    /// See `everseen help windows`.
    #[arg(long, value_name = "SIZE", value_parser = size::positive_size)]
    window: Option<u64>,

    /// The longest that a line from a pipe waits, such as 200ms
    ///
    /// See `everseen help windows`.
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
