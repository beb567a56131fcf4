//! The largest window of past bytes that a decoder may keep: a header may claim gigabytes.

use std::io::{self, ErrorKind, Read};

/// The window that is allowed by default, as a power of two. All presets of `xz` and `zstd` need less.
pub const DEFAULT_LOG: u32 = 27;

/// The largest window that zstd knows.
pub const LARGEST_LOG: u32 = 31;

/// Compressed data needs a larger window than is allowed.
#[derive(Debug, thiserror::Error)]
#[error("needs more memory for past text than 2^{log} bytes")]
pub struct WindowTooLarge {
    pub log: u32,
}

/// A decoder that has a limit.
pub struct Limited<R> {
    pub decoder: R,
    pub log: u32,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(into).map_err(|error| {
            // The decoders' own words: their kinds don't tell it from a lack of memory.
            let words = error.to_string();
            let is_limit = ["Frame requires too much memory", "mem_limit_kb"]
                .iter()
                .any(|own| words.contains(own));
            match is_limit {
                true => io::Error::new(ErrorKind::InvalidData, WindowTooLarge { log: self.log }),
                false => error,
            }
        })
    }
}
