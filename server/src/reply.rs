//! Answers, and their bytes in both versions of the protocol.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::types::BytesFrame as Resp2;
use redis_protocol::resp3::types::{BytesFrame as Resp3, VerbatimStringFormat};

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
    /// Text for people, which the third version tells from other bytes.
    Text(String),
    Null,
    /// What EXEC answers if nothing was run: in the second version an array, if one of no length.
    NullArray,
    /// No answer at all, not even an empty one: CLIENT REPLY asks for it.
    Nothing,
    Array(Vec<Reply>),
    /// In the second version an array.
    Set(Vec<Reply>),
    /// In the second version an array in which each name comes before its value.
    Map(Vec<(Reply, Reply)>),
}

/// Of a store that was closed while a command was about to use it: its key went at that moment.
const GONE: &str = "TRYAGAIN the key was removed, renamed or closed at this moment";

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

    /// Returns about how many bytes the answer takes.
    pub fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Reply::Bulk(bytes) => bytes.len(),
                Reply::Text(text) => text.len(),
                Reply::Error(Cow::Owned(text)) | Reply::Simple(Cow::Owned(text)) => text.len(),
                Reply::Array(items) | Reply::Set(items) => items.iter().map(Self::size).sum(),
                Reply::Map(pairs) => pairs
                    .iter()
                    .map(|(name, value)| name.size() + value.size())
                    .sum(),
                _ => 0,
            }
    }

    /// Returns whether the command met a store that was closed under it, and may be run again.
    pub fn is_gone(&self) -> bool {
        match self {
            Reply::Error(text) => text == GONE,
            Reply::Array(items) => items.last().is_some_and(Self::is_gone),
            _ => false,
        }
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// Writes the answer at the end of `out`.
    ///
    /// Values are written by `redis-protocol`. What they are gathered in is written here: its sets take no maps, which
    /// COMMAND INFO has in them, and its second version knows no array of no length.
    pub fn encode(self, protocol: Protocol, out: &mut BytesMut) {
        let is_third = protocol == Protocol::Resp3;
        match self {
            Reply::Nothing => {}
            Reply::NullArray if !is_third => out.extend_from_slice(b"*-1\r\n"),
            Reply::Array(items) => encode_all('*', items.len(), items, protocol, out),
            Reply::Set(items) => {
                let kind = if is_third { '~' } else { '*' };
                encode_all(kind, items.len(), items, protocol, out);
            }
            Reply::Map(pairs) => {
                let (kind, length) = match protocol {
                    Protocol::Resp2 => ('*', pairs.len() * 2),
                    Protocol::Resp3 => ('%', pairs.len()),
                };
                let items = pairs.into_iter().flat_map(|(name, value)| [name, value]);
                encode_all(kind, length, items, protocol, out);
            }
            value => {
                let outcome = match protocol {
                    Protocol::Resp2 => {
                        let frame = value.into_resp2();
                        redis_protocol::resp2::encode::extend_encode(out, &frame, false)
                    }
                    Protocol::Resp3 => {
                        let frame = value.into_resp3();
                        redis_protocol::resp3::encode::complete::extend_encode(out, &frame, false)
                    }
                };
                // Encoding fails where the buffer is too short, and it was made as long as the frame.
                outcome.expect("a buffer as long as the frame");
            }
        }
    }

    fn into_resp2(self) -> Resp2 {
        match self {
            Reply::Simple(text) => Resp2::SimpleString(bytes_of(text)),
            Reply::Error(text) => Resp2::Error(text.into_owned().into()),
            Reply::Integer(number) => Resp2::Integer(number),
            Reply::Bool(yes) => Resp2::Integer(yes.into()),
            Reply::Double(number) => Resp2::BulkString(number.to_string().into()),
            Reply::Bulk(bytes) => Resp2::BulkString(bytes),
            Reply::Text(text) => Resp2::BulkString(text.into()),
            Reply::Null => Resp2::Null,
            Reply::NullArray | Reply::Nothing | Reply::Array(_) | Reply::Set(_) | Reply::Map(_) => {
                unreachable!("not a value")
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
            Reply::Text(text) => Resp3::VerbatimString {
                data: text.into(),
                format: VerbatimStringFormat::Text,
                attributes,
            },
            Reply::Null | Reply::NullArray => Resp3::Null,
            Reply::Nothing | Reply::Array(_) | Reply::Set(_) | Reply::Map(_) => {
                unreachable!("not a value")
            }
        }
    }
}

fn encode_all(
    kind: char,
    length: usize,
    items: impl IntoIterator<Item = Reply>,
    protocol: Protocol,
    out: &mut BytesMut,
) {
    write!(out, "{kind}{length}\r\n").expect("the buffer grows");
    for item in items {
        item.encode(protocol, out);
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
        Refusal(Cow::Owned(text.replace(['\r', '\n'], " ")))
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

/// The folder of the stores without links, as errors name it, which clients need not know.
pub static FOLDER: OnceLock<PathBuf> = OnceLock::new();

impl Refusal {
    /// Returns an error's text without the folder of its file.
    pub fn of_error(error: &everseen::Error) -> Self {
        if matches!(error, everseen::Error::Closed) {
            return Refusal::new(GONE);
        }
        let text = format!("ERR {}", Chain(error));
        match FOLDER.get().map(|folder| folder.display().to_string()) {
            Some(folder) => {
                let files = text.replace(&format!("{folder}/"), "");
                Refusal::of(&files.replace(&folder, "the folder of stores"))
            }
            None => Refusal::of(&text),
        }
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Reply::Error(refusal.0)
    }
}

impl From<everseen::Error> for Refusal {
    fn from(error: everseen::Error) -> Self {
        Refusal::of_error(&error)
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

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{Protocol, Refusal, Reply};

    fn encoded(reply: Reply) -> [String; 2] {
        [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut out = BytesMut::new();
            reply.clone().encode(protocol, &mut out);
            String::from_utf8(out.to_vec()).unwrap()
        })
    }

    #[test]
    fn each_answer_is_written_in_both_versions() {
        let map = Reply::Map(vec![(Reply::bulk("a"), Reply::Null)]);
        for (reply, expected) in [
            (Reply::OK, ["+OK\r\n"; 2]),
            (Reply::Bool(true), [":1\r\n", "#t\r\n"]),
            (Reply::Double(0.5), ["$3\r\n0.5\r\n", ",0.5\r\n"]),
            (
                Reply::Text("a\n".into()),
                ["$2\r\na\n\r\n", "=6\r\ntxt:a\n\r\n"],
            ),
            (Reply::Null, ["$-1\r\n", "_\r\n"]),
            (Reply::NullArray, ["*-1\r\n", "_\r\n"]),
            (Reply::Nothing, [""; 2]),
            (Reply::Array(vec![Reply::Integer(-1)]), ["*1\r\n:-1\r\n"; 2]),
            (
                Reply::Set(vec![map]),
                [
                    "*1\r\n*2\r\n$1\r\na\r\n$-1\r\n",
                    "~1\r\n%1\r\n$1\r\na\r\n_\r\n",
                ],
            ),
            (
                Refusal::of("ERR no\r\n-ERR yes").into(),
                ["-ERR no  -ERR yes\r\n"; 2],
            ),
        ] {
            assert_eq!(encoded(reply.clone()), expected, "{reply:?}");
        }
    }
}
