//! Doors for the fuzz targets in `fuzz/`, to what is not public. Compiled for them alone.

use std::path::Path;

use crate::codec::{Decoder, Encoder, u64_at};
use crate::error::{Error, Result};
use crate::file::directory_ref::SEGMENTS_IN_PAGE;
use crate::file::{FormatError, Header, Superblock, SuperblockFault};
use crate::fingerprint;
use crate::fingerprint::page::work::{decode_in_all_ways, encode_in_all_ways};
use crate::fingerprint::segment::directory::{decode_page, encode};
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::image::Image;
use crate::fingerprint::segment::packer::Packer;
use crate::generation::log_summary::{LogSummary, scan};
use crate::page::ages::{Ages, Remembered, Window};
use crate::page::{Binding, PAGE_BYTES, PAGE_WORDS, occupancy};
use crate::testing::storage::Storage;
use crate::wal::LogFile;

/// The store that pages outside of a file belong to.
const OWN: Binding = Binding::NONE;

/// What a log holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogContents {
    /// Where valid records end.
    pub end: u64,
    /// Keys in it, committed or not.
    pub keys: u64,
    /// Those that count.
    pub committed_keys: u64,
    /// The highest commit sequence.
    pub commit_sequence: u64,
    /// Where the record that closes it begins, if there is one.
    pub cut: Option<u64>,
}

/// Checks a header, the first page of a file, and writes it again.
pub fn header(page: &[u8], file_length: u64) -> Result<[u8; 256], FormatError> {
    Header::decode(page, file_length).map(|header| header.encode())
}

/// Checks a superblock of a store with this header, and writes it again.
///
/// # Panics
/// If it is another one when it is read again.
pub fn superblock(page: &[u8], place: &[u8]) -> Option<Result<Vec<u8>, SuperblockFault>> {
    let header = Header::decode(page, u64::MAX).ok()?;
    Some(Superblock::decode(place, &header).map(|superblock| {
        let mut written = superblock.encode(&header);
        let again = Superblock::decode(&written, &header);
        assert_eq!(again.as_ref(), Ok(&superblock));
        written.truncate(place.len());
        written
    }))
}

/// Reads the log of a generation of the store at `path` with this header; `None` if there is none.
pub fn log(
    storage: &dyn Storage,
    path: &Path,
    page: &[u8],
    generation: u64,
) -> Result<Option<LogContents>> {
    let wrong = |source| Error::Format {
        path: path.to_owned(),
        source,
    };
    let header = Header::decode(page, u64::MAX).map_err(wrong)?;
    let Some(log) = LogFile::open(storage, path, &header.store_id, generation, false)? else {
        return Ok(None);
    };
    let LogSummary {
        end,
        keys,
        committed_keys,
        commit_sequence,
        cut,
        cut_offset,
        ..
    } = scan(&log, &header)?;
    Ok(Some(LogContents {
        end: end.end,
        keys,
        committed_keys,
        commit_sequence,
        cut: cut.map(|_| cut_offset),
    }))
}

/// How the numbers of a page have ages: in so many of their lowest bits, 0 to 8, counted back from a step below 2^46.
#[derive(Debug, Clone, Copy)]
pub struct PageAges {
    /// How many bits.
    pub bits: u32,
    /// The step.
    pub base: u64,
}

impl PageAges {
    fn ages(self) -> Ages {
        let steps = (1 << self.bits) - 1;
        let window = Window::new(1000 * u64::from(steps), steps);
        window.map_or(Ages::NONE, |window| Ages::at(window, 1000 * self.base))
    }
}

/// Packs as much of the front of a sorted list as fits in a page that begins with `first`, and ends at `end` if all of it
/// does. Both have no age, and each fingerprint is there once. Returns how many, and the page.
pub fn fingerprint_page(
    list: &[u64],
    (first, end): (u64, u64),
    ages: PageAges,
) -> (usize, Box<[u8; PAGE_BYTES]>) {
    let ages = ages.ages();
    let count = fingerprint::page::longest(list, (first, end), ages, list.len());
    let end = list.get(count).map_or(end, |next| ages.first_of(*next));
    let mut page = Box::new([0; PAGE_BYTES]);
    encode_in_all_ways(&list[..count], (first..end, ages), &mut page);
    (count, page)
}

/// Looks fingerprints up, by their numbers without an age, in a page that was checked, and has numbers with ages of so many
/// bits. Those count that came in a step or later.
///
/// # Panics
/// If an answer differs from what the page's list says.
pub fn remembered(page: &[u8; PAGE_BYTES], list: &[u64], asked: &[u64], bits: u32, since: u64) {
    let first = fingerprint::page::first(page);
    // No page has a base beyond.
    let base = fingerprint::page::age_base(page, bits).filter(|base| *base < 1 << 55);
    let (Some(base), 1..) = (base, bits) else {
        return;
    };
    let word = |index: usize| u64_at(page, index % PAGE_WORDS * 8);
    for one in asked.iter().map(|one| one >> bits << bits) {
        let is_that = |number: &&u64| **number >> bits == one >> bits;
        let age = list.iter().find(is_that).map(|number| number - one);
        let most = base.checked_sub(since);
        let expected = age.is_some_and(|age| most.is_some_and(|most| age <= most));
        let kept = Remembered::since(bits, since);
        if one >= first {
            let found = fingerprint::page::contains(word, one - first, kept);
            assert_eq!(found, expected, "{one}, of an age of {age:?}");
        }
    }
}

/// Reads a page of fingerprints whose range ends at `end`, before it is checked and after; `None` if it is refused.
///
/// # Panics
/// If a look-up in a page that was not refused differs from its list.
pub fn fingerprints(page: &[u8; PAGE_BYTES], end: u64, asked: &[u64]) -> Option<Vec<u64>> {
    let first = fingerprint::page::first(page);
    let mut list = Vec::new();
    let whole = decode_in_all_ways(page, first, &mut list);
    let has = |number: u64| {
        let word = |index: usize| u64_at(page, index % PAGE_WORDS * 8);
        fingerprint::page::contains(word, number.wrapping_sub(first), Remembered::ALL)
    };
    let asked: Vec<(u64, bool)> = asked.iter().map(|one| (*one, has(*one))).collect();
    fingerprint::page::check(page, first..end).ok()?;
    whole.expect("it was checked");
    assert!(list.iter().all(|one| has(*one)));
    let in_range = asked.iter().filter(|(one, _)| (first..end).contains(one));
    for (one, answer) in in_range {
        assert_eq!(*answer, list.binary_search(one).is_ok(), "{one}");
    }
    Some(list)
}

/// Checks a page of a directory, with as many entries as it says, whose segments lie before `end_page`, and writes it again;
/// `None` if it is refused.
pub fn directory_page(
    page: &[u8; PAGE_BYTES],
    number: u64,
    generation: u64,
    end_page: u64,
) -> Option<Vec<u8>> {
    let count = occupancy(page).min(SEGMENTS_IN_PAGE as u32) as usize;
    let segments = decode_page(OWN, page, number, generation, count, end_page).ok()?;
    Some(encode(OWN, &segments, number, generation))
}

/// A segment as it lies in a file: its entry in the directory, and its pages with those of its fences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentBytes {
    /// The entry.
    pub entry: Vec<u8>,
    /// The pages.
    pub pages: Vec<u8>,
    /// The number of the first page.
    pub first_page: u64,
    /// Where its range ends.
    pub end: u64,
}

/// Packs a sorted list, all of it in the range from `first` to `end`, into segments one behind the other.
pub fn segments(list: &[u64], first: u64, end: u64) -> Vec<SegmentBytes> {
    let mut packer = Packer::begin(first);
    packer.put(list);
    let mut first_page = 32;
    let mut packed: Vec<SegmentBytes> = Vec::new();
    for draft in packer.finish(end) {
        let (segment, pages) = draft.place(OWN, first_page, 1);
        if let Some(before) = packed.last_mut() {
            before.end = segment.first;
        }
        let mut entry = Vec::new();
        segment.encode(&mut Encoder::new(&mut entry));
        packed.push(SegmentBytes {
            entry,
            pages,
            first_page,
            end,
        });
        first_page = segment.extent().end;
    }
    packed
}

/// Checks every byte of a segment; returns how many fingerprints it has, and whether it has each of those asked for that
/// are in its range. `None` if it is refused.
pub fn segment(bytes: &SegmentBytes, asked: &[u64]) -> Option<(u64, Vec<bool>)> {
    let segment = Segment::decode(&mut Decoder::new(&bytes.entry), u64::MAX)?.ok()?;
    let image = Image::of(OWN, segment, bytes.end, &bytes.pages)?;
    let range = segment.first..bytes.end;
    let inside = asked.iter().filter(|one| range.contains(one));
    // Whatever the pages hold, a look-up ends.
    let answers: Vec<bool> = inside.map(|one| image.contains(*one)).collect();
    image.check().ok()?;
    Some((segment.keys, answers))
}
