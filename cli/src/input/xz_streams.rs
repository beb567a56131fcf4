//! The streams of an xz file, and the zeros between them.

use std::io::{self, BufRead, ErrorKind, Read};

use lzma_rust2::XzReader;

use crate::input::members::{Member, Members};

/// What the decoder needs besides the window, in KiB.
const BESIDES_KIB: u32 = 1024;

/// One xz stream after the other. The decoder could do so itself, but reads the zeros between them byte by byte, which takes
/// seconds for some hundred megabytes.
pub type XzStreams<R> = Members<XzStream<R>>;

/// One stream, with what it may keep.
pub struct XzStream<R: Read> {
    decoder: XzReader<R>,
    window_log: u32,
}

impl<R: BufRead> Read for XzStream<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(into)
    }
}

impl<R: BufRead> Member for XzStream<R> {
    type Input = (R, u32);

    fn begin((input, window_log): (R, u32)) -> Self {
        let most = (1 << (window_log - 10)) + BESIDES_KIB;
        XzStream {
            decoder: XzReader::new_mem_limit(input, false, most),
            window_log,
        }
    }

    fn into_input(self) -> (R, u32) {
        (self.decoder.into_inner(), self.window_log)
    }

    fn follows((input, _): &mut (R, u32)) -> io::Result<bool> {
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
