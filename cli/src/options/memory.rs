//! `--buffer` and `--timeout`, for every command that writes.

use everseen::OpenOptions;

use crate::options::timeout::Timeout;
use crate::options::units as size;

/// The part of the command line that grants memory.
#[derive(clap::Args)]
pub struct Memory {
    /// Write buffer size, such as 512M [default: it follows the filter]
    ///
    /// See `everseen help buffer`.
    #[arg(long, value_name = "SIZE", value_parser = size::size)]
    buffer: Option<u64>,

    #[command(flatten)]
    timeout: Timeout,
}

impl Memory {
    /// Returns the memory that a run begins with, whatever the filter.
    pub fn bytes(&self) -> u64 {
        self.buffer.unwrap_or(OpenOptions::DEFAULT_BUFFER)
    }

    /// Returns the options for opening a store with this much memory and patience.
    pub fn options(&self) -> OpenOptions {
        let options = self.timeout.apply(OpenOptions::new());
        match self.buffer {
            Some(bytes) => options.buffer(bytes),
            None => options,
        }
    }
}
