//! One key for all spellings of a URL.
//!
//! # How does it work?
//!
//! A line is parsed as the [URL standard](https://url.spec.whatwg.org/) of WHATWG says, as browsers do, and written out
//! again without its fragment. Spellings that a browser takes for one and the same request become the same bytes:
//!
//! ```
//! use everseen_keys::url::Normalizer;
//!
//! # fn main() -> Result<(), everseen_keys::url::UrlError> {
//! let mut normalizer = Normalizer::new();
//! let url = normalizer.normalize(b" HTTPS://Example.ORG:443/a/../b?q=1#top\r")?;
//! assert_eq!(url, b"https://example.org/b?q=1");
//! # Ok(())
//! # }
//! ```
//!
//! | alike by the standard | two, by the standard |
//! |---|---|
//! | case of scheme and host; `http://EXAMPLE.org/`, `http://example.org` | case of path and query; `/index.html`, `/INDEX.html` |
//! | the scheme's default port or none | `http` and `https` |
//! | `/a/./b/../c`, `/a/%2e/c` and `/a/c` | `/a/c` and `/a/c/`, `/a//c` |
//! | what has to be percent-encoded, encoded or not | `%7E` and `~`, `%2f` and `%2F` |
//! | a Unicode host and its `xn--` form; spellings of an IPv4 or IPv6 address | `example.org` and `example.org.` |
//! | `\` and `/` in http, https, ws, wss, ftp and file | `/a` and `/a?` |
//! | space around the URL, tabs and line ends in it, a byte-order mark before it | the order of the query, unless [told](Normalizer::sort_query) |
//!
//! Rules beyond the standard, such as names of a query that don't count: [`pages`].
//!
//! What the standard takes for a URL may surprise: `mailto:` and `data:` are, and so is `localhost:8080/a`, of the scheme
//! `localhost`. `example.org/a` is none: it has no scheme.
//!
//! The parser is the `url` crate. Beside another one that follows the standard it gave the same for all of 545,086
//! URLs from real lists. It departs where few will look: `^` in a path stays as it is (the standard has it encoded since
//! 2023), and some hosts that can't exist are refused. Where its paths depart, with segments such as `C:` and in file URLs,
//! this module makes them.
//!
//! Lines need not be UTF-8: other bytes are percent-encoded one by one, as browsers send them, so `/caf\xe9` of Latin-1 is
//! `/caf%E9`. In a host there are none.
//!
//! A store doesn't know whether its keys are URLs. Use the same options with it every time; its label (`everseen::Options::label`)
//! is a place to keep them, and the command keeps them there, with the version of the rules. Should another version write
//! some URL otherwise, [`RULES`] rises; [`Normalizer::rules`] still does what the earlier ones did.

mod error;
pub mod pages;
mod standard;
#[cfg(test)]
mod tests;

use std::ops::Range;

use ::url::Url;

pub use error::UrlError;
use pages::PageRules;
use standard::Written;

/// The version of the normalisation. It rises when a line gets another URL than before; for callers that keep it, such as in
/// a store's label (`everseen::Options::label`).
///
/// | version | what is new |
/// |---|---|
/// | 1 | |
/// | 2 | segments `C:` and `C|` in paths, and the paths of file URLs, as the standard has them; bytes that are not UTF-8 are percent-encoded |
pub const RULES: u32 = 2;

/// The longest line that is looked at, in bytes: 2 MiB, as in the browsers that have a limit.
pub const LONGEST: usize = 2 << 20;

const WWW: &str = "www.";

/// Turns lines into normalised URLs. It keeps memory from one to the next, so one is needed for each thread.
#[derive(Debug, Clone)]
pub struct Normalizer {
    sort_query: bool,
    drop_www: bool,
    rules: u32,
    pages: PageRules,
    /// A line whose bytes are not all UTF-8, with those percent-encoded that are not.
    encoded: String,
    /// The last result.
    text: String,
    /// The query in another order, and where its parts lie.
    sorted: String,
    parts: Vec<Range<usize>>,
}

impl Default for Normalizer {
    fn default() -> Self {
        Self {
            sort_query: false,
            drop_www: false,
            rules: RULES,
            pages: PageRules::default(),
            encoded: String::new(),
            text: String::new(),
            sorted: String::new(),
            parts: Vec::new(),
        }
    }
}

impl Normalizer {
    /// Normalises by the standard, drops the fragment, and does no more.
    pub fn new() -> Self {
        Self::default()
    }

    /// Normalises as an earlier [version](RULES) of the rules did, for a set of keys that were made by it. `None` if this
    /// library doesn't know the version.
    pub fn rules(mut self, version: u32) -> Option<Self> {
        self.rules = version;
        (1..=RULES).contains(&version).then_some(self)
    }

    /// Whether the parts of the query, between `&`, are sorted by their names: `?b=2&a=1` is `?a=1&b=2` then. Parts of
    /// one name stay in their order, since it often means something. Names are compared as they are written, by
    /// bytes, percent-encoding included. Off unless told.
    pub fn sort_query(mut self, yes: bool) -> Self {
        self.sort_query = yes;
        self
    }

    /// Whether `www.` at the beginning of the host of an http or https URL goes, as often as it is there, and unless
    /// no dot would be left: `www.example.org` is `example.org` then, `www.org` stays. Off unless told.
    pub fn drop_www(mut self, yes: bool) -> Self {
        self.drop_www = yes;
        self
    }

    /// What else doesn't count.
    pub fn pages(mut self, pages: PageRules) -> Self {
        self.pages = pages;
        self
    }

    /// The normalised URL, in ASCII. Normalising that once more changes nothing.
    ///
    /// Allocates what the parser does for one URL; what this adds uses memory again.
    ///
    /// # Errors
    /// The line is no URL, or longer than [`LONGEST`]; which reason comes first is no promise. The URL's host need not
    /// exist, and nothing is checked against a list of schemes or of domains.
    pub fn normalize(&mut self, line: &[u8]) -> Result<&[u8], UrlError> {
        if line.len() > LONGEST {
            return Err(UrlError::TooLong { got: line.len() });
        }
        let text = match str::from_utf8(line) {
            Ok(text) => text,
            Err(error) if self.rules < 2 => {
                return Err(UrlError::NotUtf8 {
                    offset: error.valid_up_to(),
                });
            }
            // The encoding is unknown. Browsers send such bytes as they are.
            Err(_) => {
                self.encoded.clear();
                for chunk in line.utf8_chunks() {
                    self.encoded.push_str(chunk.valid());
                    for byte in chunk.invalid() {
                        standard::escape(*byte, &mut self.encoded);
                    }
                }
                &self.encoded
            }
        };
        // A mark of the encoding at the start of a file is no part of its first line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // What the parser takes off at both ends.
        if text.bytes().all(|byte| byte <= b' ') {
            return Err(UrlError::Blank);
        }
        let departs = match self.rules {
            1 => None,
            _ => standard::parse(text),
        };
        let Written { text, query, host } = match departs {
            Some(written) => written?,
            None => self.parse(text)?,
        };
        let www = match self.drop_www {
            true => host.start..host.start + www_length(&text[host]),
            false => 0..0,
        };
        self.text = text;
        if let Some(start) = query.filter(|_| self.sort_query) {
            self.sort_from(start);
        }
        self.text.drain(www);
        self.pages.apply(&mut self.text);
        Ok(self.text.as_bytes())
    }

    /// Parses as the parser does.
    fn parse(&self, text: &str) -> Result<Written, UrlError> {
        let mut url = Url::parse(text)?;
        url.set_fragment(None);
        // Of the second path in file://a//C|/ the parser makes a drive, but only when it sees its own result: against the
        // standard, and another file.
        if url.scheme() == "file" && Url::parse(url.as_str()).as_ref() != Ok(&url) {
            return Err(UrlError::Refused);
        }
        Ok(Written::of(url))
    }

    /// Sorts the query, which begins at `start` and goes up to the end.
    fn sort_from(&mut self, start: usize) {
        let query = &self.text[start..];
        let name = |part: &Range<usize>| {
            let part = &query[part.clone()];
            part.split_once('=').map_or(part, |(name, _)| name)
        };
        let mut at = 0;
        self.parts.clear();
        self.parts.extend(query.split('&').map(|part| {
            let range = at..at + part.len();
            at = range.end + 1;
            range
        }));
        if self.parts.is_sorted_by_key(name) {
            return;
        }
        // By place as well: a stable sort, that needs no memory.
        self.parts
            .sort_unstable_by(|a, b| name(a).cmp(name(b)).then(a.start.cmp(&b.start)));
        self.sorted.clear();
        for part in &self.parts {
            if !self.sorted.is_empty() || part != &self.parts[0] {
                self.sorted.push('&');
            }
            self.sorted.push_str(&query[part.clone()]);
        }
        self.text.truncate(start);
        self.text.push_str(&self.sorted);
    }
}

/// How much of a host is `www.` and may go.
fn www_length(host: &str) -> usize {
    let mut rest = host;
    while let Some(shorter) = rest.strip_prefix(WWW) {
        // The dot that ends a full name is not one between two labels.
        let labels = shorter.trim_end_matches('.');
        if labels.starts_with('.') || !labels.contains('.') {
            break;
        }
        rest = shorter;
    }
    host.len() - rest.len()
}
