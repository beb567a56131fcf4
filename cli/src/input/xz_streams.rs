//! The streams of an xz file, and the zeros between them.

use std::io::{self, BufRead, ErrorKind};

use lzma_rust2::XzReader;

use crate::input::compressed::MAX_WINDOW_LOG;
use crate::input::members::{Member, Members};

/// The most memory for a window, in KiB, with what the decoder needs besides.
const MAX_XZ_KIB: u32 = (1 << (MAX_WINDOW_LOG - 10)) + 1024;

/// One xz stream after the other. The decoder could do so itself, but reads the zeros between them byte by byte, which takes
/// seconds for some hundred megabytes.
pub type XzStreams<R> = Members<XzReader<R>>;

impl<R: BufRead> Member for XzReader<R> {
    type Input = R;

    fn begin(input: R) -> Self {
        XzReader::new_mem_limit(input, false, MAX_XZ_KIB)
    }

    fn into_input(self) -> R {
        self.into_inner()
    }

    fn follows(input: &mut R) -> io::Result<bool> {
        skip_padding(input)
    }
}

/// Skips the zeros behind a stream, of which there must be a multiple of four. Returns whether anything follows.
fn skip_padding(input: &mut impl BufRead) -> io::Result<bool> {
    let mut skipped = 0;
    let follows = loop {
        let bytes = match input.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let ends = zeros < bytes.len() || bytes.is_empty();
        let follows = !bytes.is_empty();
        input.consume(zeros);
        skipped += zeros % 4;
        if ends {
            break follows;
        }
    };
    match skipped % 4 {
        0 => Ok(follows),
        _ => Err(io::Error::new(
            ErrorKind::InvalidData,
            "zeros behind a stream, and not a multiple of four",
        )),
    }
}
