//! `--url`, for every command that takes items.

use clap::ValueEnum;
use everseen::hash::KeyHasher;
use everseen::url::{Normalizer, UrlError};

use crate::input::record_blocks::Block;

/// Maximum number of items reported one by one because they are not URLs. Only the number of further ones is reported.
pub const TOLD: u64 = 5;

/// Maximum number of bytes shown of a reported item.
const LONGEST_SHOWN: usize = 60;

/// The part of the command line that makes items URLs.
#[derive(clap::Args, Clone, Copy, Default)]
pub struct Urls {
    /// Compare items as URLs, whatever their spelling: case of scheme and host, default ports, /a/../b and the like, as
    /// the WHATWG standard has it, and without the fragment. They are printed as they came. The store does not record
    /// this: use the same options with it every time
    #[arg(long, help_heading = "URLs")]
    url: bool,

    /// Ignore the order of a query's names: ?b=2&a=1 is ?a=1&b=2
    #[arg(long, requires = "url", help_heading = "URLs")]
    sort_query: bool,

    /// Ignore a leading www.: www.example.org is example.org
    #[arg(long, requires = "url", help_heading = "URLs")]
    drop_www: bool,

    /// What to do with items that are not URLs: pass them on, compared byte by byte, or drop them. They are counted,
    /// and the first ones reported
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "pass",
        requires = "url",
        help_heading = "URLs"
    )]
    not_url: NotUrl,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum NotUrl {
    #[default]
    Pass,
    Drop,
}

impl NotUrl {
    fn describe(self) -> &'static str {
        match self {
            NotUrl::Pass => "kept as it is",
            NotUrl::Drop => "dropped",
        }
    }
}

impl Urls {
    /// Returns what a summary says about items that were not URLs; nothing without `--url`.
    pub fn summary(&self, strays: u64) -> String {
        match (self.url, self.not_url) {
            (false, _) => String::new(),
            (true, NotUrl::Pass) => format!(", {strays} of them not URLs"),
            (true, NotUrl::Drop) => format!(", {strays} not URLs and dropped"),
        }
    }

    /// Returns the final report on the items that were not reported one by one.
    pub fn rest(&self, strays: u64) -> Option<String> {
        let rest = strays.checked_sub(TOLD).filter(|rest| *rest > 0)?;
        Some(match (rest, self.not_url) {
            (1, kept) => format!("1 more line is not a URL; {}", kept.describe()),
            (_, NotUrl::Pass) => format!("{rest} more lines are not URLs; kept as they are"),
            (_, NotUrl::Drop) => format!("{rest} more lines are not URLs; dropped"),
        })
    }
}

/// Items of one block that were not URLs.
#[derive(Default)]
pub struct Strays {
    pub count: u64,
    /// How many of them were dropped.
    pub dropped: u64,
    /// Messages about the first ones.
    pub notices: Vec<String>,
}

impl Strays {
    /// Adds the items of the next block.
    pub fn append(&mut self, other: Strays) {
        self.count += other.count;
        self.dropped += other.dropped;
        self.notices.extend(other.notices);
    }
}

/// Computes keys of items: from their bytes, or from those of their URL.
pub struct Keying {
    hasher: KeyHasher,
    urls: Option<Normalizer>,
    not_url: NotUrl,
    /// How many more may be reported one by one.
    untold: u64,
}

impl Keying {
    pub fn new(hasher: KeyHasher, urls: &Urls) -> Self {
        let normalizer = || {
            Normalizer::new()
                .sort_query(urls.sort_query)
                .drop_www(urls.drop_www)
        };
        Keying {
            hasher,
            urls: urls.url.then(normalizer),
            not_url: urls.not_url,
            untold: TOLD,
        }
    }

    /// Computes the keys of a block's items, and drops items as the options say. `before` lines of the input `name`
    /// precede the block.
    pub fn key(&mut self, block: &mut Block, (name, before): (&str, u64), strays: &mut Strays) {
        let Some(urls) = &mut self.urls else {
            return block.key_all(&self.hasher);
        };
        let mut line = before;
        block.key_by(|item| {
            line += 1;
            match urls.normalize(item) {
                Ok(url) => Some(self.hasher.key(url)),
                Err(error) => {
                    strays.count += 1;
                    if self.untold > 0 {
                        self.untold -= 1;
                        let what = self.not_url.describe();
                        strays.notices.push(notice((name, line), what, error, item));
                    }
                    match self.not_url {
                        NotUrl::Pass => Some(self.hasher.key(item)),
                        NotUrl::Drop => {
                            strays.dropped += 1;
                            None
                        }
                    }
                }
            }
        });
    }
}

fn notice((name, line): (&str, u64), what: &str, error: UrlError, item: &[u8]) -> String {
    let start = item[..item.len().min(LONGEST_SHOWN)].escape_ascii();
    let more = if item.len() > LONGEST_SHOWN {
        "…"
    } else {
        ""
    };
    format!("{name}:{line}: not a URL, {what}: {error}: \"{start}\"{more}")
}
