//! What a store's files say, by FORMAT.md alone: refused, or an answer for each key.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::image::{Image, STORE};
use super::log::{Chain, Mark};
use crate::support::forge::{SUPERBLOCKS, u32_at, u64_at};
use crate::support::numbers::finalise;

const PAGES_BEGIN: usize = 131_072;
const PAGE: usize = 4096;
const INTENTS: [usize; 2] = [4096, 8192];
const LAYER: usize = 64;
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// What is to be said of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Present,
    Absent,
    /// A page that must be looked into is damaged.
    Damaged,
}

/// What is to be said of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Good,
    Blank,
    /// Its bits count, although its CRC is wrong.
    Torn,
    Damaged,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layer {
    pub first_page: u64,
    pub pages: u64,
    /// What its checkpoints have put in. While there is nothing, its pages say nothing.
    pub keys: u64,
    pub probes: u32,
    pub all_written: bool,
}

/// A good superblock.
#[derive(Debug, Clone)]
struct Superblock {
    sequence: u64,
    generation: u64,
    log_expected: bool,
    moment: u64,
    layers: Vec<Layer>,
    /// Layer entries, byte for byte.
    entries: Vec<Vec<u8>>,
    commits: BTreeMap<String, (u64, Vec<u8>)>,
}

/// A store that is not refused.
#[derive(Debug)]
pub struct Reading<'a> {
    pub image: &'a Image,
    pub log_expected: bool,
    pub layers: Vec<Layer>,
    /// Pages that may be torn.
    pub torn: Range<u64>,
    /// The logs that count, by generation.
    pub chains: BTreeMap<u64, Chain>,
    /// Hashes that count in them, with generation and offset of the record that makes them count.
    pub logged: BTreeMap<u64, (u64, usize)>,
    /// The last commit of each writer.
    pub commits: BTreeMap<String, (u64, Vec<u8>)>,
    /// Whether a checkpoint is due.
    pub due: bool,
    pages: BTreeMap<u64, Page>,
}

/// A key's 64 bits from a hash of the caller's own.
pub fn mix(store: &[u8], raw: u64) -> u64 {
    finalise(raw ^ u64_at(store, 80))
}

impl<'a> Reading<'a> {
    /// Reads an image; else the name of the error that it must be refused with.
    pub fn of(image: &'a Image) -> Result<Self, &'static str> {
        let store = image.store();
        check_header(store)?;
        let superblock = match [0, 1].map(|slot| Superblock::read(store, slot)) {
            [Some(a), Some(b)] if a.sequence > b.sequence => a,
            [_, Some(b)] => b,
            [Some(a), None] => a,
            [None, None] => return Err("NoSuperblock"),
        };
        let end = superblock.layers.last().map_or(PAGES_BEGIN as u64, |last| {
            (last.first_page + last.pages) * 4096
        });
        if (store.len() as u64) < end {
            return Err("Truncated");
        }
        let intent = newest_intent(store).filter(|intent| intent.0 == superblock.generation);
        let mut reading = Self {
            image,
            log_expected: superblock.log_expected,
            layers: superblock.layers.clone(),
            torn: 0..0,
            chains: BTreeMap::new(),
            logged: BTreeMap::new(),
            commits: superblock.commits.clone(),
            due: false,
            pages: BTreeMap::new(),
        };
        reading.read_logs(&superblock, intent.is_some())?;
        reading.refuse_strays(&superblock)?;
        if reading.due
            && let Some((_, pages)) = intent
        {
            reading.torn = pages;
        }
        reading.take_logs();
        reading.read_pages();
        Ok(reading)
    }

    fn read_logs(&mut self, superblock: &Superblock, begun: bool) -> Result<(), &'static str> {
        let generation = superblock.generation;
        let expected = superblock.log_expected || begun;
        let first = match self.chain(generation) {
            None if expected => return Err("Missing"),
            Some(Err("Header")) if !expected => return Ok(()),
            None => return Ok(()),
            Some(chain) => chain?,
        };
        if ![0, superblock.moment].contains(&first.moment) {
            return Err("OtherMoment");
        }
        if first.truncated && (superblock.log_expected || !first.records.is_empty()) {
            return Err("Truncated");
        }
        let Some(cut) = first.cut() else {
            if begun {
                return Err("Unsealed");
            }
            // Only a header that is good, and of the moment after this log, makes it the next.
            let log = self.image.log(generation + 1).unwrap_or_default();
            let fits = log.len() >= 64 && [0, first.next_moment].contains(&u64_at(log, 56));
            match self.chain(generation + 1) {
                Some(Ok(next)) if fits && next.marks().next().is_some() => return Err("Unsealed"),
                Some(Err("Damaged")) if fits => return Err("Damaged"),
                _ => {}
            }
            self.chains.insert(generation, first);
            return Ok(());
        };
        let index = u32_at(cut, 4) as usize;
        let fits = match superblock.entries.get(index) {
            Some(entry) => index + 1 == superblock.entries.len() && *entry == cut[8..8 + LAYER],
            None => index == superblock.entries.len(),
        };
        if !fits {
            return Err("Nonsense");
        }
        self.due = true;
        let last = u32_at(cut, 0) & 1 != 0;
        let next_moment = first.next_moment;
        self.chains.insert(generation, first);
        if !last {
            let second = self.chain(generation + 1).ok_or("Missing")??;
            if ![0, next_moment].contains(&second.moment) {
                return Err("OtherMoment");
            }
            if second.truncated {
                return Err("Truncated");
            }
            if second.is_cut() {
                return Err("Nonsense");
            }
            self.chains.insert(generation + 1, second);
        }
        Ok(())
    }

    /// Refuses logs beside those that count that no crash can have left.
    fn refuse_strays(&self, superblock: &Superblock) -> Result<(), &'static str> {
        let generation = superblock.generation;
        let numbers = self.image.0.keys().filter_map(|name| name.rsplit_once('.'));
        for number in numbers.filter_map(|(_, number)| number.parse::<u64>().ok()) {
            let log = self.image.log(number).unwrap_or_default();
            if number == generation || self.chains.contains_key(&number) || is_strange(log) {
                continue;
            }
            let first = self.chains.get(&generation);
            let is_unused = first.is_some() && number == generation + 1;
            let fits = |chain: &Chain| match first {
                Some(first) if is_unused => [0, first.next_moment].contains(&chain.moment),
                _ => {
                    number + 1 == generation
                        && (chain.next_moment == superblock.moment
                            || chain.moment == 0 && superblock.moment == 0)
                }
            };
            // Of a log that does not count, the header alone is looked at.
            let head = &log[..log.len().min(4096)];
            match Chain::read(head, &self.image.store()[112..128], number) {
                Err("Foreign") => return Err("LeftoverLog"),
                Err(_) if is_unused || number + 1 == generation => {}
                Err(_) => return Err("LeftoverLog"),
                Ok(chain) if fits(&chain) => {}
                Ok(_) => return Err("OtherMoment"),
            }
        }
        Ok(())
    }

    fn chain(&self, generation: u64) -> Option<Result<Chain, &'static str>> {
        let file = self.image.log(generation)?;
        Some(Chain::read(file, &self.image.store()[112..128], generation))
    }

    /// Whether a log does not look like one any more: it is not removed then, and in the way.
    pub fn has_strange_log(&self) -> bool {
        let mut logs = self.image.0.iter().filter(|(name, _)| *name != STORE);
        logs.any(|(_, log)| is_strange(log))
    }

    fn take_logs(&mut self) {
        let transactional = u32_at(self.image.store(), 48) & 1 != 0;
        for (generation, chain) in &self.chains {
            for (hash, offset) in chain.counted(transactional) {
                self.logged.entry(hash).or_insert((*generation, offset));
            }
            for (_, mark) in chain.marks() {
                let Mark {
                    sequence,
                    writer,
                    tag,
                    ..
                } = mark;
                self.commits.insert(writer, (sequence, tag));
            }
        }
    }

    fn read_pages(&mut self) {
        for layer in &self.layers {
            for number in layer.first_page..layer.first_page + layer.pages {
                let bytes = self.page(number);
                let good = match bytes.iter().all(|byte| *byte == 0) {
                    true if layer.all_written => None,
                    true => Some(Page::Blank),
                    false => {
                        let crc = page_crc(self.image.store(), number, bytes);
                        (crc == u32_at(bytes, 0)).then_some(Page::Good)
                    }
                };
                let page = match good {
                    Some(page) => page,
                    None if self.torn.contains(&number) => Page::Torn,
                    None => Page::Damaged,
                };
                self.pages.insert(number, page);
            }
        }
    }

    /// The bytes of a page, by its number.
    pub fn page(&self, number: u64) -> &'a [u8] {
        &self.image.store()[number as usize * PAGE..][..PAGE]
    }

    /// What is to be said of a page, by its number.
    pub fn state(&self, number: u64) -> Option<Page> {
        self.pages.get(&number).copied()
    }

    /// All pages in a state, as layer and page within it.
    pub fn pages_in(&self, state: Page) -> BTreeSet<(u32, u64)> {
        let mut found = BTreeSet::new();
        for (index, layer) in (0..).zip(&self.layers) {
            for page in 0..layer.pages {
                if self.pages[&(layer.first_page + page)] == state {
                    found.insert((index, page));
                }
            }
        }
        found
    }

    /// What is to be said of a key.
    pub fn answer(&self, hash: u64) -> Answer {
        if self.logged.contains_key(&hash) {
            return Answer::Present;
        }
        for layer in self.layers.iter().rev().filter(|layer| layer.keys > 0) {
            let number = layer.number_of(hash);
            if self.pages[&number] == Page::Damaged {
                return Answer::Damaged;
            }
            if layer.has_bits(self.page(number), hash) {
                return Answer::Present;
            }
        }
        Answer::Absent
    }
}

impl Layer {
    /// The number in the file of a key's page.
    pub fn number_of(&self, hash: u64) -> u64 {
        self.first_page + ((u128::from(hash) * u128::from(self.pages)) >> 64) as u64
    }

    /// Whether a page has all bits of a key.
    pub fn has_bits(&self, page: &[u8], hash: u64) -> bool {
        let run = if self.probes <= 20 { 3 } else { 2 };
        let mut draws = (1_u64..).flat_map(|turn| {
            let drawn = finalise(hash.wrapping_add(GOLDEN.wrapping_mul(turn)));
            [drawn & 0xFFFF_FFFF, drawn >> 32]
        });
        let mut below = |cells: u64| (draws.next().unwrap_or(0) * cells) >> 32;
        // Counted from the page's first bit.
        let is_set = |bit: u64| page[bit as usize / 8] & (1 << (bit % 8)) != 0;
        let mut all = true;
        for _ in 0..self.probes / run {
            let first = 128 + below(32_640);
            let line = first / 512 * 512;
            let room = line + 512 - line.max(128);
            let wrapped = |bit: u64| if bit < line + 512 { bit } else { bit - room };
            let second = first + 1 + below(room - 1);
            all &= is_set(first) && is_set(wrapped(second));
            if run == 3 {
                let third = first + 1 + below(room - 2);
                all &= is_set(wrapped(third + u64::from(third >= second)));
            }
        }
        for _ in 0..self.probes % run {
            all &= is_set(128 + below(32_640));
        }
        all
    }
}

fn is_strange(log: &[u8]) -> bool {
    let blank = log.iter().take(4096).all(|byte| *byte == 0);
    !blank && !log.starts_with(b"EVERSLOG")
}

/// The CRC of a page of a store that begins with this header.
fn page_crc(header: &[u8], number: u64, page: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    if header[32] & 4 != 0 {
        hasher.update(&header[112..128]);
    }
    hasher.update(&number.to_le_bytes());
    hasher.update(&page[4..]);
    hasher.finalize()
}

/// Fields are not looked at: nobody here mends a checksum.
fn check_header(store: &[u8]) -> Result<(), &'static str> {
    if store.len() < 8 {
        return Err("Truncated");
    }
    if store[..8] != *b"EVERSEEN" {
        return Err("NotAStore");
    }
    if store.len() < PAGES_BEGIN {
        return Err("Truncated");
    }
    if crc32fast::hash(&store[..252]) != u32_at(store, 252) {
        return Err("HeaderChecksum");
    }
    if store[256..4096].iter().any(|byte| *byte != 0) {
        return Err("HeaderField");
    }
    Ok(())
}

/// Generation and pages of the newest intent.
fn newest_intent(store: &[u8]) -> Option<(u64, Range<u64>)> {
    let mut newest = None;
    for offset in INTENTS {
        let intent = &store[offset..offset + 64];
        let good = intent[..8] == *b"EVERINTT"
            && u32_at(intent, 8) == crc32fast::hash(&intent[12..])
            && intent[16..32] == store[112..128];
        let age = (u64_at(intent, 32), u64_at(intent, 40));
        if good && newest.as_ref().is_none_or(|(held, _)| age > *held) {
            newest = Some((age, u64_at(intent, 48)..u64_at(intent, 56)));
        }
    }
    newest.map(|((generation, _), pages)| (generation, pages))
}

impl Superblock {
    fn read(store: &[u8], slot: usize) -> Option<Self> {
        let bytes = &store[SUPERBLOCKS[slot]..][..57_344];
        let length = u32_at(bytes, 12) as usize;
        let good = bytes[..8] == *b"EVERSUPR"
            && (320..=57_344).contains(&length)
            && length.is_multiple_of(8)
            && crc32fast::hash(&bytes[12..length]) == u32_at(bytes, 8)
            && bytes[32..288] == store[..256];
        if !good {
            return None;
        }
        let layers = u32_at(bytes, 308) as usize;
        let entries: Vec<Vec<u8>> = bytes[320..320 + layers * LAYER]
            .chunks(LAYER)
            .map(<[u8]>::to_vec)
            .collect();
        let layer = |entry: &Vec<u8>| Layer {
            first_page: u64_at(entry, 0),
            pages: u64_at(entry, 8),
            keys: u64_at(entry, 24),
            probes: u32_at(entry, 40),
            all_written: u32_at(entry, 44) & 1 != 0,
        };
        let mut at = 320 + layers * LAYER;
        let mut commits = BTreeMap::new();
        for _ in 0..u32_at(bytes, 312) {
            let length = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
            let (name, tag) = (length(at + 8), length(at + 10));
            let writer = String::from_utf8(bytes[at + 16..at + 16 + name].to_vec()).ok()?;
            let tag_bytes = bytes[at + 16 + name..at + 16 + name + tag].to_vec();
            commits.insert(writer, (u64_at(bytes, at), tag_bytes));
            at += (16 + name + tag).next_multiple_of(8);
        }
        Some(Self {
            sequence: u64_at(bytes, 16),
            generation: u64_at(bytes, 24),
            log_expected: u32_at(bytes, 304) & 1 != 0,
            moment: match u32_at(bytes, 304) & 4 {
                0 => 0,
                _ => u64_at(bytes, at),
            },
            layers: entries.iter().map(layer).collect(),
            entries,
            commits,
        })
    }
}
