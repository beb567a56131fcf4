//! `--timeout`, for every command that waits for other processes.

use std::time::Duration;

use everseen::OpenOptions;

use crate::options::units as size;

/// The part of the command line that says how long to wait.
#[derive(clap::Args)]
pub struct Timeout {
    /// How long to wait for processes that block the store
    ///
    /// Those that open, close or block it. Such as 500ms or 5m.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = size::duration)]
    timeout: Duration,
}

impl Timeout {
    /// Applies the timeout to the options of a store.
    pub fn apply(&self, options: OpenOptions) -> OpenOptions {
        options.timeout(self.timeout)
    }
}
