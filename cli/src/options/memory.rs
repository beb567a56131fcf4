//! `--buffer` and `--timeout`, for every command that writes.

use everseen::Options;

use crate::options::timeout::Timeout;
use crate::options::units as size;

/// The part of the command line that grants memory.
#[derive(clap::Args)]
pub struct Memory {
    /// Memory for what is not in the filter file yet, and to work in, such as 512M
    ///
    /// Most of it is two files beside the store while it is open. Unless told, it follows the filter: as much as the
    /// filter has, between 64M and 256M, to begin with; later up to four times that, but at most an eighth of the
    /// memory that there is, half of what the system lets lie unwritten, a fourth of what is available and of what is
    /// free on the disk. Lines that wait for each other take memory in addition (--window, where there is
    /// that option).
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
