//! Computes the keys of items, as their store's rule says.

use everseen::hash::{HashedKey, KeyHasher};
use everseen_keys::extractor::{Extractor, Stray};
use everseen_keys::rule::{NoKey, NotUrl, Part};

use crate::error::{CliError, KeyError};
use crate::input::foreign_text::ForeignText;
use crate::input::headers::Headers;
use crate::input::keys_ahead::KeysAhead;
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
    /// How many were too long and skipped, and the first of these.
    pub long: u64,
    pub first_long: Option<Place>,
    /// Messages about the first ones.
    pub notices: Vec<String>,
    /// The header of the inputs, with its line end.
    pub header: Option<Box<[u8]>>,
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
        self.header = self.header.take().or(other.header);
    }
}

/// Computes keys of items.
pub struct Keying {
    hasher: KeyHasher,
    /// Absent where items are their own keys.
    by_rule: Option<ByRule>,
    foreign: ForeignText,
    longest: u64,
    /// Whether an item was skipped that is longer.
    has_skipped: bool,
}

/// Computes keys by a rule.
struct ByRule {
    hasher: KeyHasher,
    extractor: Extractor,
    ahead: KeysAhead,
    no_key: NoKey,
    not_url: Option<NotUrl>,
    told: Told,
    headers: Headers,
}

/// What was reported of single items.
struct Told {
    /// How many more may be reported because they have no key.
    keyless: u64,
    /// How many more may be reported because they are not URLs.
    strays: u64,
    /// Whether an item with a tab inside its URL was reported, or none is to be.
    tab: bool,
}

impl Keying {
    /// Creates one for blocks of items with this separator, of which those of more than `longest` bytes were skipped.
    pub fn new(hasher: KeyHasher, reading: &Reading, (separator, longest): (u8, u64)) -> Self {
        let rule = reading.rule();
        let not_url = reading.not_url();
        let is_plain = rule.part == Part::Whole && rule.text.is_exact() && not_url.is_none();
        let by_rule = (!is_plain).then(|| ByRule {
            hasher: hasher.clone(),
            extractor: Extractor::new(rule),
            ahead: KeysAhead::of(rule),
            no_key: reading.no_key().unwrap_or_default(),
            not_url,
            told: Told {
                keyless: TOLD,
                strays: TOLD,
                // In a record, tabs are mostly outside of its URL.
                tab: rule.part != Part::Whole,
            },
            headers: Headers::of(&rule.part, separator),
        });
        Keying {
            hasher,
            by_rule,
            foreign: ForeignText::of(rule, separator),
            longest,
            has_skipped: false,
        }
    }

    /// Notes that the next block begins another input.
    pub fn begin_input(&mut self) {
        self.foreign.begin_input();
        if let Some(by_rule) = &mut self.by_rule {
            by_rule.headers.begin_input();
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
        self.expect_header(block, (name, before))?;
        self.note_long(block, strays);
        let foreign = &mut self.foreign;
        let Some(by_rule) = &mut self.by_rule else {
            foreign.look_at_block(block, name, &mut strays.notices);
            block.key_all(&self.hasher);
            return Ok(());
        };
        let (hasher, extractor) = (&by_rule.hasher, &by_rule.extractor);
        by_rule.ahead.find(block, hasher, extractor);
        let mut result = Ok(());
        let mut items = 0..;
        block.key_by(|number, item| {
            let found = items.next().and_then(|item| by_rule.ahead.key(item));
            let place = (name, before + number);
            let keyed = by_rule.key(place, (item, found), foreign, strays);
            keyed.unwrap_or_else(|error| {
                result = Err(error);
                Keyed::End
            })
        });
        result
    }

    /// Refuses an input whose header was skipped: the record behind it would be taken for the header.
    fn expect_header(
        &self,
        block: &mut Block,
        (name, before): (&str, u64),
    ) -> Result<(), CliError> {
        let is_due = self
            .by_rule
            .as_ref()
            .is_some_and(|rule| rule.headers.is_due());
        let skipped = block.first_gap().map(|(_, first)| first.line);
        if !is_due || skipped != Some(before + 1) {
            return Ok(());
        }
        block.key_by(|_, _| Keyed::End);
        let (name, limit) = (name.to_owned(), human::bytes(self.longest));
        Err(KeyError::LongHeader { name, limit }.into())
    }

    /// Notes the items of a block that were skipped because they are too long.
    fn note_long(&mut self, block: &Block, strays: &mut Strays) {
        let Some((count, first)) = block.first_gap() else {
            return;
        };
        strays.long += count;
        if !std::mem::replace(&mut self.has_skipped, true) {
            let Place { input, line } = &first;
            let (input, limit) = (input.display(), human::bytes(self.longest));
            let notice = format!("{input}:{line}: longer than {limit}; skipped");
            strays.notices.push(notice);
        }
        strays.first_long.get_or_insert(first);
    }
}

impl ByRule {
    /// Computes the key of an item, unless it was found before, or drops the item.
    fn key(
        &mut self,
        place: (&str, u64),
        (item, found): (&[u8], Option<HashedKey>),
        foreign: &mut ForeignText,
        strays: &mut Strays,
    ) -> Result<Keyed, CliError> {
        if let Some(header) = self.headers.take(item, place.0, &mut self.extractor)? {
            strays.header = header;
            return Ok(Keyed::Dropped);
        }
        let keyed = match found {
            // Of an item whose key is found ahead, no text of another system is in the key.
            Some(key) => Ok(key),
            None => self.extractor.key(item).map(|key| {
                foreign.look(place, (item, key), &mut strays.notices);
                self.hasher.key(key)
            }),
        };
        let stray = match keyed {
            Ok(key) => {
                if self.not_url.is_some() && !self.told.tab && has_tab(item) {
                    self.told.tab = true;
                    strays.notices.push(tab_notice(place, item));
                }
                return Ok(Keyed::Key(key));
            }
            Err(stray) => stray,
        };
        self.stray(place, item, stray, strays)
    }

    /// Does with an item without a key, or whose key isn't a URL, what the options say.
    fn stray(
        &mut self,
        (name, line): (&str, u64),
        item: &[u8],
        stray: Stray,
        strays: &mut Strays,
    ) -> Result<Keyed, CliError> {
        let is_dropped = if stray.is_not_url() {
            strays.count += 1;
            self.not_url == Some(NotUrl::Drop)
        } else if self.no_key == NoKey::Fail {
            return Err(KeyError::NoKey {
                name: name.to_owned(),
                line,
                reason: stray,
            }
            .into());
        } else {
            strays.keyless += 1;
            self.no_key == NoKey::Drop
        };
        let fate = (self.no_key, self.not_url.unwrap_or_default());
        let notice = self.told.notice((name, line), fate, &stray, item);
        strays.notices.extend(notice);
        if is_dropped {
            strays.dropped += 1;
            return Ok(Keyed::Dropped);
        }
        let key = self.extractor.own_key(item, &stray);
        Ok(Keyed::Key(self.hasher.key(key)))
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
        let left = match stray.is_not_url() {
            false => &mut self.keyless,
            true => &mut self.strays,
        };
        *left = left.checked_sub(1)?;
        let item = shown(item);
        Some(match stray {
            Stray::NotUrl(reason) => {
                let fate = fate_of_stray(not_url);
                format!("{name}:{line}: not a URL, {fate}: {reason}: {item}")
            }
            stray => {
                let (fate, reason) = (fate_of_keyless(no_key), stray.reason());
                format!("{name}:{line}: no key, {fate}: {reason}: {item}")
            }
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

pub fn shown(item: &[u8]) -> String {
    let start = item[..item.len().min(LONGEST_SHOWN)].escape_ascii();
    let more = if item.len() > LONGEST_SHOWN {
        "…"
    } else {
        ""
    };
    format!("\"{start}\"{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::record_blocks::Splitter;
    use crate::input::records::KeyOptions;
    use clap::Parser as _;
    use everseen::Hash;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        keys: KeyOptions,
    }

    /// Items of one input, some without a key or that are no URLs.
    fn text(random: &mut fastrand::Rng, csv: bool) -> Vec<u8> {
        let mut text = b"id,url\n".to_vec();
        for number in 0..random.usize(..8000) {
            let url = match random.u32(..50) {
                0 => "no url".to_owned(),
                1 => format!("https://example.org/{}\t{number}", random.u32(..99)),
                _ => format!("https://example.org/{}", random.u32(..5000)),
            };
            let item = match (random.u32(..50), csv) {
                (0, _) => "{\"url\": nul".to_owned(),
                (1, _) => String::new(),
                (2, true) => format!("{number},\"a line\nin {url}\""),
                (_, true) => format!("{number},{url}"),
                (_, false) => format!(
                    "{{\"id\": {number}, \"url\": \"{}\"}}",
                    url.escape_default()
                ),
            };
            text.extend_from_slice(item.as_bytes());
            text.push(b'\n');
        }
        text
    }

    /// The keys of all blocks of some inputs, and what is reported of them, with so many threads.
    fn keyed(options: &[&str], inputs: &[Vec<u8>], threads: usize) -> (Vec<HashedKey>, String) {
        let keys = Line::parse_from([&["everseen"], options].concat()).keys;
        let reading = Reading::asked(&keys).expect("a rule");
        let hasher = KeyHasher::new(Hash::Xxh3, &[0; 32]);
        let mut keying = Keying::new(hasher, &reading, (b'\n', u64::MAX));
        let by_rule = keying.by_rule.as_mut().expect("not plain");
        by_rule.ahead.set_threads(threads);
        let (mut found, mut strays) = (Vec::new(), Strays::default());
        let mut ending = None;
        for input in inputs {
            let delimiter = options.contains(&"--csv-key").then_some(b',');
            let mut splitter = Splitter::new(b'\n', usize::MAX).cut_csv(delimiter);
            keying.begin_input();
            let (mut more, mut line) = (true, 0);
            let mut bytes = &input[..];
            while more && ending.is_none() {
                more = splitter.fill(&mut bytes).expect("no open quotes");
                let mut block = splitter.take(Block::default());
                let lines = block.lines();
                let mut own = Strays::default();
                let keyed = keying.key(&mut block, ("input", line), &mut own);
                ending = keyed.err().map(|error| error.to_string());
                line += lines;
                strays.append(own);
                found.extend_from_slice(block.keys());
            }
        }
        let Strays {
            keyless,
            count,
            dropped,
            notices,
            header,
            ..
        } = strays;
        let told = format!("{keyless} {count} {dropped} {notices:?} {header:?} {ending:?}");
        (found, told)
    }

    #[test]
    fn several_threads_find_the_keys_that_one_finds() {
        let ways: [&[&str]; 7] = [
            &["--json-key", "url"],
            &["--json-key", "url", "--json-key", "id"],
            &["--json-key", "url", "--url", "--no-key=drop"],
            &["--json-key", "url", "--no-key=fail"],
            &["--csv-key", "url"],
            &["--csv-key", "url", "--url", "--not-url=drop"],
            &["--url"],
        ];
        let mut random = fastrand::Rng::with_seed(44);
        for options in ways {
            let is_csv = options.contains(&"--csv-key");
            let inputs: Vec<_> = (0..3).map(|_| text(&mut random, is_csv)).collect();
            let alone = keyed(options, &inputs, 1);
            for threads in 2..=4 {
                let (keys, told) = keyed(options, &inputs, threads);
                assert_eq!(told, alone.1, "{options:?}, {threads} threads");
                assert!(keys == alone.0, "{options:?}, {threads} threads");
            }
        }
    }
}
