//! `--buffer` and `--timeout`, for every command that writes.

use everseen::Options;

use crate::options::timeout::Timeout;
use crate::options::units as size;

/// The part of the command line that grants memory.
#[derive(clap::Args)]
pub struct Memory {
    /// Write buffer size, such as 512M [default: the size of the filter, from 64M to 256M, but at most a fourth of the
    /// free disk]. Most of it is two files beside the store while it is open. Lines that wait for each other take more
    /// (see --window, where there is that option)
    #[arg(long, value_name = "SIZE", value_parser = size::size)]
    buffer: Option<u64>,

    #[command(flatten)]
    timeout: Timeout,
}

impl Memory {
    /// Returns the options for opening a store with this much memory and patience.
    pub fn options(&self) -> Options {
        let options = self.timeout.apply(Options::new());
        match self.buffer {
            Some(bytes) => options.buffer(bytes),
            None => options,
        }
    }
}
