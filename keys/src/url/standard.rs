//! Paths by the standard, where the parser departs from it: those of file URLs, and those with a segment that looks like a
//! Windows drive letter (`C:`, `C|`).
//!
//! In a path of any scheme the parser doesn't remove such a segment for `..`, where the standard keeps it only as the
//! first segment of a file URL. In a file URL it drops slashes at the beginning of the path, and the host before a drive.

use std::borrow::Cow;
use std::ops::Range;

use ::url::{ParseError, Position, Url};

/// The parts of a URL whose path this module makes. Tabs and line ends are removed.
struct Parts<'a> {
    scheme: &'a str,
    /// What stands between `//` and the path; `None` where there is no `//`.
    authority: Option<&'a str>,
    path: &'a str,
    /// Query and fragment, with their marks.
    rest: &'a str,
    /// Whether the URL is of a scheme that the standard calls special.
    special: bool,
}

/// Parses a URL that the parser would not take as the standard has it. Returns `None` if that does not apply.
pub(super) fn parse(text: &str) -> Option<Result<Written, ParseError>> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let text = match text.bytes().any(|byte| b"\t\n\r".contains(&byte)) {
        true => Cow::Owned(text.replace(['\t', '\n', '\r'], "")),
        false => Cow::Borrowed(text),
    };
    let (scheme, rest) = split_scheme(&text)?;
    if scheme.eq_ignore_ascii_case("file") {
        return Some(parse_file(rest));
    }
    if !has_drive(rest) {
        return None;
    }
    let parts = Parts::of(scheme, rest)?;
    has_drive(parts.path).then(|| parts.parse())
}

/// Returns the scheme and what follows its colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some((scheme, rest))
}

/// Returns whether a segment looks like a drive letter. There may be one too many: a query is no path.
fn has_drive(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |at: usize| bytes.get(at).is_none_or(|byte| b"/\\?#".contains(byte));
    (2..bytes.len()).any(|at| {
        matches!(bytes[at], b':' | b'|')
            && bytes[at - 1].is_ascii_alphabetic()
            && matches!(bytes[at - 2], b'/' | b'\\')
            && ends(at + 1)
    })
}

pub(super) fn is_drive(segment: &str) -> bool {
    matches!(segment.as_bytes(), [letter, b':' | b'|'] if letter.is_ascii_alphabetic())
}

impl<'a> Parts<'a> {
    /// Returns `None` where there is no path of segments.
    fn of(scheme: &'a str, text: &'a str) -> Option<Self> {
        let known = ["http", "https", "ws", "wss", "ftp"];
        let special = known.iter().any(|name| scheme.eq_ignore_ascii_case(name));
        let text = match special {
            true => Some(text.trim_start_matches(['/', '\\'])),
            false => text.strip_prefix("//"),
        }
        .map_or((false, text), |text| (true, text));
        let (has_authority, text) = text;
        if !has_authority && !text.starts_with('/') {
            return None;
        }
        let (before, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
        let slash = |c| c == '/' || (special && c == '\\');
        let start = match has_authority {
            true => before.find(slash).unwrap_or(before.len()),
            false => 0,
        };
        Some(Self {
            scheme,
            authority: has_authority.then_some(&text[..start]),
            path: &before[start..],
            rest,
            special,
        })
    }

    /// Has the parser parse all but the path.
    fn parse(&self) -> Result<Written, ParseError> {
        let Self { scheme, rest, .. } = *self;
        let around = match self.authority {
            Some(authority) => format!("{scheme}://{authority}/{rest}"),
            None => format!("{scheme}:/{rest}"),
        };
        let url = Url::parse(&around)?;
        let path = path(self.path, self.special, None);
        // Else the path would be taken for a host.
        let mark = match self.authority {
            None if path.starts_with("//") => "/.",
            _ => "",
        };
        Ok(Written::with_path(&url, &[mark, &path]))
    }
}

/// A URL as it is written out, without its fragment.
pub(super) struct Written {
    pub(super) text: String,
    /// Where its query begins, behind the mark.
    pub(super) query: Option<usize>,
    /// Its host, if it is an http or https URL.
    pub(super) host: Range<usize>,
}

impl Written {
    /// As the parser has it, which has dropped the fragment.
    pub(super) fn of(url: Url) -> Self {
        let query = url.query().map(|_| url[..Position::BeforeQuery].len());
        let host = host_of(&url);
        Self {
            text: url.into(),
            query,
            host,
        }
    }

    /// With another path, given in pieces.
    fn with_path(url: &Url, path: &[&str]) -> Self {
        let before = &url[..Position::BeforePath];
        let after = &url[Position::AfterPath..Position::AfterQuery];
        let mut text = String::with_capacity(url.as_str().len());
        text.push_str(before);
        path.iter().for_each(|piece| text.push_str(piece));
        let query = url.query().map(|_| text.len() + 1);
        text.push_str(after);
        let host = host_of(url);
        Self { text, query, host }
    }
}

/// Returns where the host of an http or https URL is; nothing for other schemes.
fn host_of(url: &Url) -> Range<usize> {
    let start = url[..Position::BeforeHost].len();
    match url.scheme() {
        "http" | "https" => start..start + url.host_str().map_or(0, str::len),
        _ => 0..0,
    }
}

/// The states "file", "file slash" and "file host" of the standard.
fn parse_file(text: &str) -> Result<Written, ParseError> {
    let (before, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let slash = |c| c == '/' || c == '\\';
    let after = before
        .strip_prefix(slash)
        .and_then(|text| text.strip_prefix(slash));
    let (host, path) = match after {
        // The path begins at once, or after one slash.
        None => ("", path(before, true, Some(Drives))),
        Some(text) => {
            let (host, after) = text.split_at(text.find(slash).unwrap_or(text.len()));
            match is_drive(host) {
                true => ("", path(text, true, Some(Drives))),
                false => (host, path(after, true, Some(Drives))),
            }
        }
    };
    let url = Url::parse(&format!("file://{host}/{rest}"))?;
    Ok(Written::with_path(&url, &[&path]))
}

/// The first segment may be a drive, as in file URLs.
struct Drives;

/// The state "path" of the standard: segments without dots, percent-encoded.
fn path(raw: &str, special: bool, drives: Option<Drives>) -> String {
    let slash = |c| c == '/' || (special && c == '\\');
    let mut segments: Vec<String> = Vec::new();
    let raw = raw.strip_prefix(slash).unwrap_or(raw);
    let mut pieces = raw.split(slash).peekable();
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        let mut segment = encoded(piece);
        match dots(&segment) {
            2 => {
                let keeps = drives.is_some()
                    && matches!(&segments[..], [one] if is_drive(one) && one.ends_with(':'));
                if !keeps {
                    segments.pop();
                }
            }
            1 => {}
            _ => {
                if drives.is_some() && segments.is_empty() && is_drive(&segment) {
                    segment.replace_range(1.., ":");
                }
                segments.push(segment);
                continue;
            }
        }
        if is_last {
            segments.push(String::new());
        }
    }
    segments.iter().flat_map(|segment| ["/", segment]).collect()
}

/// Returns how many dots a segment is, percent-encoded or not; 0 if it is anything else.
fn dots(segment: &str) -> usize {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    match plain.as_str() {
        "." => 1,
        ".." => 2,
        _ => 0,
    }
}

/// Percent-encodes what the parser encodes in a path.
fn encoded(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        match byte {
            b' ' | b'"' | b'#' | b'<' | b'>' | b'?' | b'`' | b'{' | b'}' => escape(byte, &mut out),
            b'!'..=b'~' => out.push(char::from(byte)),
            _ => escape(byte, &mut out),
        }
    }
    out
}

/// Percent-encodes a byte.
pub(super) fn escape(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}
