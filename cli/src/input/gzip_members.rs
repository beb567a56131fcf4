//! The members of a gzip file, and the zeros behind the last one.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;

/// How a member begins.
const FIRST_BYTE: u8 = 0x1F;

/// One gzip member after the other. Zeros behind the last one fill a block of a tape, or are what a power cut has left of
/// a file, and hold nothing: `gzip` skips them, too.
pub struct GzipMembers<R: BufRead> {
    /// `None` once the input has ended.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> GzipMembers<R> {
    pub fn of(input: R) -> Self {
        GzipMembers {
            member: Some(GzDecoder::new(input)),
        }
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            let Some(ended) = self.member.take() else {
                break;
            };
            let mut rest = ended.into_inner();
            if begins_member(&mut rest)? {
                *self = GzipMembers::of(rest);
            }
        }
        Ok(0)
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
