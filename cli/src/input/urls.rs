//! `--url`, for every command that takes items.

use clap::ValueEnum;
use everseen::hash::KeyHasher;
use everseen_keys::url::{Normalizer, UrlError};

use crate::error::CliError;
use crate::input::reading::Reading;
use crate::input::record_blocks::{Block, Place};
use crate::output::format as human;

/// Maximum number of items reported one by one because they are not URLs. Only the number of further ones is reported.
pub const TOLD: u64 = 5;

/// Maximum number of bytes shown of a reported item.
const LONGEST_SHOWN: usize = 60;

/// The part of the command line that makes items URLs.
#[derive(clap::Args, Clone, Copy, Default)]
pub struct Urls {
    /// Compare items as URLs, whatever their spelling: case of scheme and host, default ports, /a/../b and the like, as
    /// the WHATWG standard has it, and without the fragment. They are printed as they came. A store that a command
    /// creates keeps this and the options below, and later commands follow it
    #[arg(long, help_heading = "URLs")]
    pub url: bool,

    /// Compare items byte by byte, as by default. It is an error if the store was created with --url
    #[arg(long, conflicts_with = "url", help_heading = "URLs")]
    pub no_url: bool,

    /// Ignore the order of a query's names: ?b=2&a=1 is ?a=1&b=2
    #[arg(long, conflicts_with = "no_url", help_heading = "URLs")]
    pub sort_query: bool,

    /// Ignore a leading www.: www.example.org is example.org
    #[arg(long, conflicts_with = "no_url", help_heading = "URLs")]
    pub drop_www: bool,

    /// What to do with items that are not URLs: pass them on, compared byte by byte, or drop them. They are counted,
    /// and the first ones reported [default: as the store was created, or pass]
    #[arg(
        long,
        value_name = "WHAT",
        conflicts_with = "no_url",
        help_heading = "URLs"
    )]
    pub not_url: Option<NotUrl>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NotUrl {
    #[default]
    Pass,
    Drop,
}

impl NotUrl {
    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            NotUrl::Pass => "pass",
            NotUrl::Drop => "drop",
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            NotUrl::Pass => "kept as it is",
            NotUrl::Drop => "dropped",
        }
    }
}

impl Urls {
    /// Returns whether any of these options is given.
    pub fn is_given(&self) -> bool {
        self.url || self.no_url || self.refinement().is_some()
    }

    /// Returns the first given option that says how URLs are compared.
    pub fn refinement(&self) -> Option<&'static str> {
        let options = [
            ("--sort-query", self.sort_query),
            ("--drop-www", self.drop_www),
            ("--not-url", self.not_url.is_some()),
        ];
        let given = options.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(option, _)| option)
    }

    /// Refuses an option that says how URLs are compared where nothing says that lines are URLs.
    pub fn ensure_url(&self) -> Result<(), CliError> {
        match self.refinement() {
            Some(option) if !self.url => Err(CliError::NeedsUrl { option }),
            _ => Ok(()),
        }
    }
}

/// Items of one block that are not what they should be.
#[derive(Default)]
pub struct Strays {
    /// How many were not URLs.
    pub count: u64,
    /// How many of them were dropped.
    pub dropped: u64,
    /// How many were too long and skipped, and the first of these.
    pub long: u64,
    pub first_long: Option<Place>,
    /// Messages about the first ones.
    pub notices: Vec<String>,
}

impl Strays {
    /// Adds the items of the next block.
    pub fn append(&mut self, other: Strays) {
        self.count += other.count;
        self.dropped += other.dropped;
        self.long += other.long;
        self.first_long = self.first_long.take().or(other.first_long);
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
    /// The longest item, until one was skipped that is longer.
    longest: Option<u64>,
    /// Whether an item with a tab inside its URL was reported.
    has_told_tab: bool,
}

impl Keying {
    /// Creates one for blocks whose items of more than `longest` bytes were skipped.
    pub fn new(hasher: KeyHasher, reading: Reading, longest: u64) -> Self {
        let (urls, not_url) = match reading {
            Reading::Bytes => (None, NotUrl::default()),
            Reading::Urls(own) => {
                // A version that is unknown was refused before.
                let urls = Normalizer::new().rules(own.rules).unwrap_or_default();
                let urls = urls.sort_query(own.sort_query).drop_www(own.drop_www);
                (Some(urls), own.not_url)
            }
        };
        Keying {
            hasher,
            urls,
            not_url,
            untold: TOLD,
            longest: Some(longest),
            has_told_tab: false,
        }
    }

    /// Computes the keys of a block's items, and drops items as the options say. `before` lines of the input `name`
    /// precede the block.
    pub fn key(&mut self, block: &mut Block, (name, before): (&str, u64), strays: &mut Strays) {
        self.note_long(block, strays);
        let Some(urls) = &mut self.urls else {
            return block.key_all(&self.hasher);
        };
        block.key_by(|number, item| {
            let line = before + number;
            match urls.normalize(item) {
                Ok(url) => {
                    if !self.has_told_tab && has_tab(item) {
                        self.has_told_tab = true;
                        strays.notices.push(tab_notice((name, line), item));
                    }
                    Some(self.hasher.key(url))
                }
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

impl Keying {
    /// Notes the items of a block that were skipped because they are too long.
    fn note_long(&mut self, block: &Block, strays: &mut Strays) {
        let Some((count, first)) = block.first_gap() else {
            return;
        };
        strays.long += count;
        if let Some(longest) = self.longest.take() {
            let Place { input, line } = &first;
            let (input, limit) = (input.display(), human::bytes(longest));
            let notice = format!("{input}:{line}: longer than {limit}; skipped");
            strays.notices.push(notice);
        }
        strays.first_long.get_or_insert(first);
    }
}

/// Returns whether a tab is inside an item, where the standard removes it. Those at its ends are space.
fn has_tab(item: &[u8]) -> bool {
    // Most items have none at all.
    item.contains(&b'\t') && item.trim_ascii().contains(&b'\t')
}

fn tab_notice((name, line): (&str, u64), item: &[u8]) -> String {
    let item = shown(item);
    format!(
        "{name}:{line}: lines with tabs: https://h.org/1<TAB>23 and https://h.org/12<TAB>3 are one URL by the standard; \
         the first is {item}"
    )
}

fn notice((name, line): (&str, u64), what: &str, error: UrlError, item: &[u8]) -> String {
    let item = shown(item);
    format!("{name}:{line}: not a URL, {what}: {error}: {item}")
}

fn shown(item: &[u8]) -> String {
    let start = item[..item.len().min(LONGEST_SHOWN)].escape_ascii();
    let more = if item.len() > LONGEST_SHOWN {
        "…"
    } else {
        ""
    };
    format!("\"{start}\"{more}")
}
