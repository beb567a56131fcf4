//! Where a request ends, by the lengths that it states.

use thiserror::Error;

/// The most that a connection may send in one request. What states more is refused before it is read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Arguments of a request, its name included.
    pub arguments: usize,
    /// Bytes of an argument.
    pub argument: usize,
    /// Bytes of a request.
    pub request: usize,
}

impl Limits {
    /// For those who haven't said who they are, where that is asked: as Redis has it.
    pub const STRANGER: Self = Limits {
        arguments: 10,
        argument: 16 << 10,
        request: 64 << 10,
    };

    /// Bytes of a line: a length, or a request that is one line.
    const LINE: usize = 64 << 10;
}

/// Bytes that are no request. The connection ends with this text, as Redis words it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    #[error("Protocol error: too big mbulk count string")]
    LongCount,
    #[error("Protocol error: too big bulk count string")]
    LongLength,
    #[error("Protocol error: too big inline request")]
    LongLine,
    #[error("Protocol error: invalid multibulk length")]
    Count,
    #[error("Protocol error: unauthenticated multibulk length")]
    StrangersCount,
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    NotAnArgument(u8),
    #[error("Protocol error: invalid bulk length")]
    Length,
    #[error("Protocol error: unauthenticated bulk length")]
    StrangersLength,
    #[error("Protocol error: a request of more than {0} bytes")]
    Large(usize),
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    #[error("Protocol error: unreadable request")]
    Unreadable,
}

/// Finds the end of a request, and remembers how far it has looked while the rest has not come.
#[derive(Debug, Default)]
pub struct Cutter {
    /// Bytes from the request's begin on that are known.
    known: usize,
    /// Arguments still to come, once their number is known.
    missing: Option<usize>,
}

impl Cutter {
    /// Returns the length of the request that `bytes` begin with; `None` until all of it is there.
    pub fn cut(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        if first != b'*' {
            return line_of(bytes, ProtocolError::LongLine);
        }
        let mut missing = match self.missing {
            Some(missing) => missing,
            None => {
                let Some(length) = line_of(bytes, ProtocolError::LongCount)? else {
                    return Ok(None);
                };
                self.known = length;
                count_of(&bytes[..length], limits)?
            }
        };
        while missing > 0 {
            self.missing = Some(missing);
            let rest = bytes.get(self.known..).unwrap_or_default();
            match rest.first() {
                None => return Ok(None),
                Some(b'$') => {}
                Some(&other) => return Err(ProtocolError::NotAnArgument(other)),
            }
            let Some(line) = line_of(rest, ProtocolError::LongLength)? else {
                return Ok(None);
            };
            let end = line + length_of(&rest[..line], limits)? + 2;
            if self.known + end > limits.request {
                return Err(ProtocolError::Large(limits.request));
            }
            if rest.len() < end {
                return Ok(None);
            }
            self.known += end;
            missing -= 1;
        }
        let length = self.known;
        *self = Cutter::default();
        Ok(Some(length))
    }
}

/// Returns the length of the line that `bytes` begin with, its end included.
fn line_of(bytes: &[u8], too_long: ProtocolError) -> Result<Option<usize>, ProtocolError> {
    let looked_at = &bytes[..bytes.len().min(Limits::LINE)];
    match looked_at.iter().position(|&byte| byte == b'\n') {
        Some(end) => Ok(Some(end + 1)),
        None if looked_at.len() == Limits::LINE => Err(too_long),
        None => Ok(None),
    }
}

/// Returns the number in a line behind its first byte.
fn number_of(line: &[u8]) -> Option<i64> {
    let digits = line.get(1..)?.strip_suffix(b"\r\n")?;
    // The parser takes it for a sign.
    if digits.starts_with(b"+") {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn count_of(line: &[u8], limits: &Limits) -> Result<usize, ProtocolError> {
    let count = number_of(line).ok_or(ProtocolError::Count)?;
    // None, or less than none: nothing to do, and nothing to answer.
    let count = usize::try_from(count.max(0)).map_err(|_| ProtocolError::Count)?;
    match count <= limits.arguments {
        true => Ok(count),
        false if limits.arguments == Limits::STRANGER.arguments => {
            Err(ProtocolError::StrangersCount)
        }
        false => Err(ProtocolError::Count),
    }
}

fn length_of(line: &[u8], limits: &Limits) -> Result<usize, ProtocolError> {
    let length = number_of(line).ok_or(ProtocolError::Length)?;
    let length = usize::try_from(length).map_err(|_| ProtocolError::Length)?;
    match length <= limits.argument {
        true => Ok(length),
        false if limits.argument == Limits::STRANGER.argument => {
            Err(ProtocolError::StrangersLength)
        }
        false => Err(ProtocolError::Length),
    }
}

/// Returns where the words are of a request that is one line, as people type it. Words in quotes are rewritten in place,
/// without their quotes and escapes: that makes them shorter.
pub fn words(line: &mut [u8]) -> Result<Vec<(usize, usize)>, ProtocolError> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(blanks) = line[at..]
        .iter()
        .position(|byte| !byte.is_ascii_whitespace())
    {
        at += blanks;
        let (begin, mut end) = (at, at);
        while at < line.len() && !line[at].is_ascii_whitespace() {
            match line[at] {
                quote @ (b'"' | b'\'') => (at, end) = unquote(line, quote, at + 1, end)?,
                plain => {
                    line[end] = plain;
                    (at, end) = (at + 1, end + 1);
                }
            }
        }
        words.push((begin, end));
    }
    Ok(words)
}

/// Moves what is in quotes from `at` on to `end`, and returns where both are after it. A word ends with its quotes.
fn unquote(
    line: &mut [u8],
    quote: u8,
    mut at: usize,
    mut end: usize,
) -> Result<(usize, usize), ProtocolError> {
    loop {
        let (byte, length) = match line[at..] {
            [first, ..] if first == quote => break,
            [b'\\', b'\'', ..] if quote == b'\'' => (b'\'', 2),
            [b'\\', b'x', high, low, ..] if quote == b'"' && is_hex(high) && is_hex(low) => {
                (hex(high) << 4 | hex(low), 4)
            }
            [b'\\', escaped, ..] if quote == b'"' => (unescaped(escaped), 2),
            // Only a word in quotes could go on past its line.
            [b'\n', ..] | [b'\r', b'\n'] | [] => return Err(ProtocolError::Quotes),
            [plain, ..] => (plain, 1),
        };
        line[end] = byte;
        (at, end) = (at + length, end + 1);
    }
    match line.get(at + 1) {
        Some(next) if !next.is_ascii_whitespace() => Err(ProtocolError::Quotes),
        _ => Ok((at + 1, end)),
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn is_hex(digit: u8) -> bool {
    digit.is_ascii_hexdigit()
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 32) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::{ProtocolError, words};

    fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let mut line = line.to_vec();
        let found = words(&mut line)?;
        Ok(found
            .into_iter()
            .map(|(from, to)| line[from..to].to_vec())
            .collect())
    }

    #[test]
    fn words_of_a_line_may_be_in_quotes() {
        for (line, expected) in [
            (&b"PING\r\n"[..], &[&b"PING"[..]][..]),
            (b"  a   b  \n", &[b"a", b"b"]),
            (b"\r\n", &[]),
            (b"a \"b c\" ''\r\n", &[b"a", b"b c", b""]),
            (b"\"a\\x20\\n\\\"\\q\\xg\" x\r\n", &[b"a \n\"qxg", b"x"]),
            (b"'a\\'b\\n' x\n", &[b"a'b\\n", b"x"]),
            (b"a\"b c\" d\n", &[b"ab c", b"d"]),
        ] {
            assert_eq!(split(line).unwrap(), expected, "{}", line.escape_ascii());
        }
        for line in [
            &b"\"a\r\n"[..],
            b"'a\n",
            b"\"a\"b\n",
            b"'\\'\n",
            b"\"\\\"\r\n",
        ] {
            assert_eq!(
                split(line),
                Err(ProtocolError::Quotes),
                "{}",
                line.escape_ascii()
            );
        }
    }
}
