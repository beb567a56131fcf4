//! The members of a gzip file, and the zeros behind the last one.

use std::io::{self, BufRead, ErrorKind};

use flate2::bufread::GzDecoder;

use crate::input::members::{Member, Members};

/// How a member begins.
const FIRST_BYTE: u8 = 0x1F;

/// One gzip member after the other. Zeros behind the last one fill a block of a tape, or are what a power cut has left of
/// a file, and hold nothing: `gzip` skips them, too.
pub type GzipMembers<R> = Members<GzDecoder<R>>;

impl<R: BufRead> Member for GzDecoder<R> {
    type Input = R;

    fn begin(input: R) -> Self {
        GzDecoder::new(input)
    }

    fn into_input(self) -> R {
        self.into_inner()
    }

    fn follows(input: &mut R) -> io::Result<bool> {
        begins_member(input)
    }
}

/// Returns whether a member follows. Skips zeros at the end of the input.
fn begins_member(input: &mut impl BufRead) -> io::Result<bool> {
    let mut has_zeros = false;
    loop {
        let bytes = match input.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        match bytes.get(zeros) {
            None if bytes.is_empty() => return Ok(false),
            Some(&FIRST_BYTE) if !has_zeros && zeros == 0 => return Ok(true),
            Some(_) => {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "other bytes follow its last member",
                ));
            }
            None => {
                has_zeros = true;
                input.consume(zeros);
            }
        }
    }
}
