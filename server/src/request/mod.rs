//! Requests: where each ends in the bytes of a connection, and its arguments.
//!
//! [`Cutter`] finds the end of a request from the lengths that it states, so that one that is too large is refused before it
//! is read; what a whole request says is read by `redis-protocol`.

mod cutter;

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

pub use self::cutter::{Cutter, Limits, ProtocolError};

/// The requests that a connection had sent when it was read.
#[derive(Debug, Default)]
pub struct Batch {
    data: Bytes,
    /// For each argument of all requests, where it begins and ends in `data`.
    arguments: Vec<(usize, usize)>,
    /// For each request, where its arguments end in `arguments`.
    ends: Vec<usize>,
}

/// The arguments of one request, its name first.
#[derive(Clone, Copy, Debug)]
pub struct Request<'b> {
    data: &'b Bytes,
    arguments: &'b [(usize, usize)],
}

impl Batch {
    /// Takes all whole requests from the front of `buffer`, up to `most`.
    ///
    /// # Errors
    /// The first that can't be read, if none comes before it. Those before it are returned first.
    pub fn take(
        buffer: &mut BytesMut,
        cutter: &mut Cutter,
        limits: &Limits,
        most: usize,
    ) -> Result<Self, ProtocolError> {
        let mut batch = Batch::default();
        let mut end = 0;
        while batch.ends.len() < most {
            let added = match cutter.cut(&buffer[end..], limits) {
                Ok(Some(length)) => batch.add(buffer, end, length).map(|()| length),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            match added {
                Ok(length) => end += length,
                Err(error) if end == 0 => return Err(error),
                // It is met again once those before it are answered.
                Err(_) => break,
            }
        }
        // Where nothing is taken the buffer stays this function's caller's alone: a shared one is copied to be read into, so
        // that a large request would cost the square of its length.
        if end > 0 {
            batch.data = buffer.split_to(end).freeze();
        }
        Ok(batch)
    }

    fn add(&mut self, buffer: &mut [u8], begin: usize, length: usize) -> Result<(), ProtocolError> {
        let whole = &mut buffer[begin..begin + length];
        if whole[0] != b'*' {
            // A line that is refused is met again, as it is.
            let mut line = whole.to_vec();
            let words = cutter::words(&mut line)?;
            whole.copy_from_slice(&line);
            self.arguments
                .extend(words.iter().map(|(from, to)| (begin + from, begin + to)));
            self.ends.push(self.arguments.len());
            return Ok(());
        }
        if whole.starts_with(b"*-") {
            // Less than no argument.
            self.ends.push(self.arguments.len());
            return Ok(());
        }
        let items = match decode_range(whole) {
            Ok(Some((RangeFrame::Array(items), _))) => items,
            _ => return Err(ProtocolError::Unreadable),
        };
        for item in items {
            let RangeFrame::BulkString((from, to)) = item else {
                return Err(ProtocolError::Unreadable);
            };
            self.arguments.push((begin + from, begin + to));
        }
        self.ends.push(self.arguments.len());
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns about how much memory it takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.data.len()
            + size_of_val(&self.arguments[..])
            + size_of_val(&self.ends[..])
    }

    pub fn get(&self, number: usize) -> Request<'_> {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        Request {
            data: &self.data,
            arguments: &self.arguments[begin..self.ends[number]],
        }
    }
}

impl<'b> Request<'b> {
    pub fn len(&self) -> usize {
        self.arguments.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }

    pub fn get(&self, number: usize) -> Option<&'b [u8]> {
        let (from, to) = self.arguments.get(number).copied()?;
        Some(&self.data[from..to])
    }

    /// Returns an argument that a command's arity says is there.
    ///
    /// # Panics
    /// If it is not.
    pub fn arg(&self, number: usize) -> &'b [u8] {
        let (from, to) = self.arguments[number];
        &self.data[from..to]
    }

    /// Returns the arguments from a number on.
    pub fn from(&self, number: usize) -> impl ExactSizeIterator<Item = &'b [u8]> + use<'b> {
        let data = self.data;
        let rest = self.arguments.get(number..).unwrap_or_default();
        rest.iter().map(|&(from, to)| &data[from..to])
    }

    /// Returns whether an argument is a word, in whatever case.
    pub fn is_word(&self, number: usize, word: &str) -> bool {
        self.get(number)
            .is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Copies the request, to be run later. The bytes of those around it are not kept with it.
    pub fn to_owned(self) -> Batch {
        let begin = self.arguments.first().map_or(0, |&(from, _)| from);
        let end = self.arguments.last().map_or(begin, |&(_, to)| to);
        let shifted = self.arguments.iter();
        Batch {
            data: Bytes::copy_from_slice(&self.data[begin..end]),
            arguments: shifted
                .map(|&(from, to)| (from - begin, to - begin))
                .collect(),
            ends: vec![self.arguments.len()],
        }
    }
}
