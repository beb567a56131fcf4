//! `--buffer` and `--timeout`, for every command that writes.

use everseen::OpenOptions;

use crate::options::timeout::Timeout;
use crate::options::units as size;

/// The part of the command line that grants memory.
#[derive(clap::Args)]
pub struct Memory {
    /// Write buffer size, such as 512M [default: it follows the filter]
    ///
    /// Most of it is two files beside the store while it is open. By default it begins with the size of the filter,
    /// from 64M to 256M; in a store of kind fingerprint with 64M, of which a short run uses 1M. Later
    /// buffers grow up to four times the filter's size, but at most an eighth of the memory,
    /// a fourth of the available memory and of the free disk, and half of what the kernel lets lie unwritten (all of
    /// it, for a filter that is half as large or larger). Where the address space is limited (`ulimit -v`), they take an
    /// eighth of what is left of it at the start. Lines that wait for each other take more (see --window, where
    /// there is that option).
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
