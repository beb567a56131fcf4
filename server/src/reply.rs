//! Answers, and their bytes in both versions of the protocol.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::types::BytesFrame as Resp2;
use redis_protocol::resp3::types::BytesFrame as Resp3;

/// Which version of the protocol a connection speaks: the second until HELLO asks for the third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Resp2,
    Resp3,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Simple(Cow<'static, str>),
    /// Its text begins with a word in capitals, as clients expect.
    Error(Cow<'static, str>),
    Integer(i64),
    /// In the second version 0 or 1.
    Bool(bool),
    Double(f64),
    Bulk(Bytes),
    Null,
    Array(Vec<Reply>),
    /// In the second version an array in which each name comes before its value.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    pub const OK: Self = Reply::Simple(Cow::Borrowed("OK"));

    pub fn simple(text: &'static str) -> Self {
        Reply::Simple(Cow::Borrowed(text))
    }

    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Reply::Bulk(Bytes::copy_from_slice(bytes.as_ref()))
    }

    /// Returns a number of things. More than an `i64` holds are as many as it holds.
    pub fn count(number: u64) -> Self {
        Reply::Integer(number.try_into().unwrap_or(i64::MAX))
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// Writes the answer at the end of `out`.
    pub fn encode(self, protocol: Protocol, out: &mut BytesMut) {
        let outcome = match protocol {
            Protocol::Resp2 => {
                let frame = self.into_resp2();
                redis_protocol::resp2::encode::extend_encode(out, &frame, false)
            }
            Protocol::Resp3 => {
                let frame = self.into_resp3();
                redis_protocol::resp3::encode::complete::extend_encode(out, &frame, false)
            }
        };
        // Encoding fails where the buffer is too short, and it was made as long as the frame.
        outcome.expect("a buffer as long as the frame");
    }

    fn into_resp2(self) -> Resp2 {
        match self {
            Reply::Simple(text) => Resp2::SimpleString(bytes_of(text)),
            Reply::Error(text) => Resp2::Error(text.into_owned().into()),
            Reply::Integer(number) => Resp2::Integer(number),
            Reply::Bool(yes) => Resp2::Integer(yes.into()),
            Reply::Double(number) => Resp2::BulkString(number.to_string().into()),
            Reply::Bulk(bytes) => Resp2::BulkString(bytes),
            Reply::Null => Resp2::Null,
            Reply::Array(items) => Resp2::Array(items.into_iter().map(Self::into_resp2).collect()),
            Reply::Map(pairs) => {
                let items = pairs.into_iter().flat_map(|(name, value)| [name, value]);
                Resp2::Array(items.map(Self::into_resp2).collect())
            }
        }
    }

    fn into_resp3(self) -> Resp3 {
        let attributes = None;
        match self {
            Reply::Simple(text) => Resp3::SimpleString {
                data: bytes_of(text),
                attributes,
            },
            Reply::Error(text) => Resp3::SimpleError {
                data: text.into_owned().into(),
                attributes,
            },
            Reply::Integer(data) => Resp3::Number { data, attributes },
            Reply::Bool(data) => Resp3::Boolean { data, attributes },
            Reply::Double(data) => Resp3::Double { data, attributes },
            Reply::Bulk(data) => Resp3::BlobString { data, attributes },
            Reply::Null => Resp3::Null,
            Reply::Array(items) => Resp3::Array {
                data: items.into_iter().map(Self::into_resp3).collect(),
                attributes,
            },
            Reply::Map(pairs) => Resp3::Map {
                data: pairs
                    .into_iter()
                    .map(|(name, value)| (name.into_resp3(), value.into_resp3()))
                    .collect(),
                attributes,
            },
        }
    }
}

fn bytes_of(text: Cow<'static, str>) -> Bytes {
    match text {
        Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
        Cow::Owned(text) => Bytes::from(text),
    }
}

/// Why a command is refused: the text of an error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(Cow<'static, str>);

impl Refusal {
    pub const fn new(text: &'static str) -> Self {
        Refusal(Cow::Borrowed(text))
    }

    /// Takes a text with what a client sent, in which line ends would end the answer.
    pub fn of(text: &str) -> Self {
        let is_plain = |c: char| !c.is_control();
        Refusal(Cow::Owned(
            text.chars()
                .map(|c| if is_plain(c) { c } else { ' ' })
                .collect(),
        ))
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Reply::Error(refusal.0)
    }
}

impl From<everseen::Error> for Refusal {
    fn from(error: everseen::Error) -> Self {
        Refusal::of(&format!("ERR {}", Chain(&error)))
    }
}

/// An error and what it comes from, in one line.
pub struct Chain<'e>(pub &'e dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(source) = cause {
            write!(f, ": {source}")?;
            cause = source.source();
        }
        Ok(())
    }
}

/// What a command returns.
pub type Outcome = Result<Reply, Refusal>;
