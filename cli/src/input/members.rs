//! Compressed data in several members, one after the other.

use std::io::{self, Read};

/// A decoder of one member.
pub trait Member: Read + Sized {
    /// The bytes, perhaps with what else it takes to decode them.
    type Input;

    fn begin(input: Self::Input) -> Self;

    /// Returns the input, which goes on where the member ends.
    fn into_input(self) -> Self::Input;

    /// Skips what may stand between two members, and returns whether another one follows.
    fn follows(input: &mut Self::Input) -> io::Result<bool>;
}

/// One member after the other.
pub struct Members<M> {
    /// `None` once the input has ended.
    member: Option<M>,
}

impl<M: Member> Members<M> {
    pub fn of(input: M::Input) -> Self {
        Members {
            member: Some(M::begin(input)),
        }
    }
}

impl<M: Member> Read for Members<M> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            let Some(ended) = self.member.take() else {
                break;
            };
            let mut rest = ended.into_input();
            if M::follows(&mut rest)? {
                *self = Members::of(rest);
            }
        }
        Ok(0)
    }
}
