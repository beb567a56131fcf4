//! Computes the keys of items, as their store's rule says.

use everseen::hash::KeyHasher;
use everseen_keys::extractor::{Extractor, Stray};
use everseen_keys::rule::{NoKey, NotUrl};

use crate::error::CliError;
use crate::input::reading::{Reading, fate_of_keyless, fate_of_stray};
use crate::input::record_blocks::{Block, Keyed, Place};
use crate::output::format as human;

/// Maximum number of items reported one by one because they have no key, and because they are not URLs. Only the number
/// of further ones is reported.
pub const TOLD: u64 = 5;

/// Maximum number of bytes shown of a reported item.
const LONGEST_SHOWN: usize = 60;

/// Items of one block that are not what they should be.
#[derive(Default)]
pub struct Strays {
    /// How many have no key.
    pub keyless: u64,
    /// How many were not URLs.
    pub count: u64,
    /// How many of both were dropped.
    pub dropped: u64,
    /// How many were too long and skipped, and the first of these. Boxed, because it is rare and travels with each block.
    pub long: u64,
    pub first_long: Option<Box<Place>>,
    /// Messages about the first ones.
    pub notices: Vec<String>,
}

impl Strays {
    /// Adds the items of the next block.
    pub fn append(&mut self, other: Strays) {
        self.keyless += other.keyless;
        self.count += other.count;
        self.dropped += other.dropped;
        self.long += other.long;
        self.first_long = self.first_long.take().or(other.first_long);
        self.notices.extend(other.notices);
    }
}

/// Computes keys of items.
pub struct Keying {
    hasher: KeyHasher,
    /// Absent where items are their own keys.
    extractor: Option<Extractor>,
    no_key: NoKey,
    not_url: Option<NotUrl>,
    told: Told,
    /// The longest item, until one was skipped that is longer.
    longest: Option<u64>,
}

/// What was reported of single items.
struct Told {
    /// How many more may be reported because they have no key.
    keyless: u64,
    /// How many more may be reported because they are not URLs.
    strays: u64,
    /// Whether an item with a tab inside its URL was reported.
    tab: bool,
}

impl Keying {
    /// Creates one for blocks whose items of more than `longest` bytes were skipped.
    pub fn new(hasher: KeyHasher, reading: &Reading, longest: u64) -> Self {
        let not_url = reading.not_url();
        let is_plain = reading.no_key().is_none() && not_url.is_none();
        Keying {
            hasher,
            extractor: (!is_plain).then(|| Extractor::new(reading.rule())),
            no_key: reading.no_key().unwrap_or_default(),
            not_url,
            told: Told {
                keyless: TOLD,
                strays: TOLD,
                tab: false,
            },
            longest: Some(longest),
        }
    }

    /// Computes the keys of a block's items, and drops items as the options say. `before` lines of the input `name`
    /// precede the block. An item that ends the command is an error: the block has only those before it then.
    pub fn key(
        &mut self,
        block: &mut Block,
        (name, before): (&str, u64),
        strays: &mut Strays,
    ) -> Result<(), CliError> {
        self.note_long(block, strays);
        let Some(extractor) = &mut self.extractor else {
            block.key_all(&self.hasher);
            return Ok(());
        };
        let mut failed = None;
        block.key_by(|number, item| {
            let place = (name, before + number);
            let stray = match extractor.key(item) {
                Ok(key) => {
                    if self.not_url.is_some() && !self.told.tab && has_tab(item) {
                        self.told.tab = true;
                        strays.notices.push(tab_notice(place, item));
                    }
                    return Keyed::Key(self.hasher.key(key));
                }
                Err(stray) => stray,
            };
            let is_dropped = match &stray {
                Stray::NoKey(_) if self.no_key == NoKey::Fail => {
                    failed = Some(CliError::NoKey {
                        name: name.to_owned(),
                        line: place.1,
                        reason: stray,
                    });
                    return Keyed::End;
                }
                Stray::NoKey(_) => {
                    strays.keyless += 1;
                    self.no_key == NoKey::Drop
                }
                _ => {
                    strays.count += 1;
                    self.not_url == Some(NotUrl::Drop)
                }
            };
            let fate = (self.no_key, self.not_url.unwrap_or_default());
            strays
                .notices
                .extend(self.told.notice(place, fate, &stray, item));
            match is_dropped {
                true => {
                    strays.dropped += 1;
                    Keyed::Dropped
                }
                false => Keyed::Key(self.hasher.key(extractor.own_key(item, &stray))),
            }
        });
        failed.map_or(Ok(()), Err)
    }

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
        strays.first_long.get_or_insert(Box::new(first));
    }
}

impl Told {
    /// Returns what is reported of an item that is not what it should be; nothing after the first ones.
    fn notice(
        &mut self,
        (name, line): (&str, u64),
        (no_key, not_url): (NoKey, NotUrl),
        stray: &Stray,
        item: &[u8],
    ) -> Option<String> {
        let left = match stray {
            Stray::NoKey(_) => &mut self.keyless,
            _ => &mut self.strays,
        };
        *left = left.checked_sub(1)?;
        let item = shown(item);
        Some(match stray {
            Stray::NoKey(reason) => {
                let fate = fate_of_keyless(no_key);
                format!("{name}:{line}: no key, {fate}: {reason}: {item}")
            }
            Stray::NotUrl(reason) => {
                let fate = fate_of_stray(not_url);
                format!("{name}:{line}: not a URL, {fate}: {reason}: {item}")
            }
            other => format!("{name}:{line}: {other}: {item}"),
        })
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

fn shown(item: &[u8]) -> String {
    let start = item[..item.len().min(LONGEST_SHOWN)].escape_ascii();
    let more = if item.len() > LONGEST_SHOWN {
        "…"
    } else {
        ""
    };
    format!("\"{start}\"{more}")
}
