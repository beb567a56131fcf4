//! The superblock: the state that changes at a checkpoint (FORMAT.md, "Superblocks").

use super::layout::MAX_COUNTER;
use std::ops::Range;

pub(crate) use super::commits::{
    CommitEntry, Commits, MAX_TAG, MAX_WRITER_NAME, writer_bytes, writers_bytes,
};
use super::commits::{encode_commits, take_commits};
use super::directory_ref::DIRECTORY_REF_BYTES;
use super::label::label_of;
use super::layer::LAYER_BYTES;
use super::layout::{FIRST_PAGE, HEADER_BYTES, SUPERBLOCK_BYTES, page_offset};
use super::run_table::MOST_TABLE_BYTES;
use super::section::{MAX_SECTIONS, MOST_SAMPLE_PARTS, SECTION_BYTES};
use super::superblock_parts::{
    FLAG_LOG_EXPECTED, check_front, take_directory, take_end, take_layers, take_sections,
    wrong_field,
};
use super::{
    DirectoryRef, Header, Journal, Layer, Run, RunTable, Section, SectionKind, SuperblockFault,
};
use crate::codec::{Decoder, Encoder, put_u32, u32_at};
use crate::page::{Kind, PAGE_BYTES, PAYLOAD_BITS};
use crate::sizing::MAX_LAYERS;

pub(crate) const SUPERBLOCK_MAGIC: [u8; 8] = *b"EVERSUPR";
pub(crate) const SUPERBLOCK_CRC_OFFSET: usize = 8;
pub(crate) const SUPERBLOCK_LENGTH_OFFSET: usize = 12;
pub(crate) const HEADER_COPY_OFFSET: usize = 32;
/// Bytes before the layer table.
pub(crate) const FIXED_BYTES: usize = 320;
/// Bytes of the moment, of the clock and of the earliest step, behind the writers.
const SUPERBLOCK_END_BYTES: usize = 24;
/// How many sections a store has at most: exempt and lost keys, and the parts of a sample.
const MOST_SECTIONS: usize = 2 + MOST_SAMPLE_PARTS;
/// Bytes available for writers, whatever the number of layers and sections.
pub(crate) const WRITERS_ROOM: usize = SUPERBLOCK_BYTES
    - FIXED_BYTES
    - MAX_LAYERS as usize * LAYER_BYTES
    - MAX_SECTIONS * SECTION_BYTES;

const _: () = assert!(HEADER_COPY_OFFSET + HEADER_BYTES + 32 == FIXED_BYTES);
const _: () = assert!(SUPERBLOCK_CRC_OFFSET + 4 == SUPERBLOCK_LENGTH_OFFSET);
// Only stores of layers have a layer table, and only those of fingerprints a directory and runs.
const _: () = assert!(DIRECTORY_REF_BYTES + MOST_TABLE_BYTES <= MAX_LAYERS as usize * LAYER_BYTES);
// These have no room of their own: they take that of sections which no store has yet.
const _: () = assert!(SUPERBLOCK_END_BYTES <= (MAX_SECTIONS - MOST_SECTIONS) * SECTION_BYTES);

/// A superblock whose CRC and fields have all been checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Superblock {
    /// Counts superblock writes; the higher number is the newer superblock.
    pub(crate) sequence: u64,
    /// The pages hold all logs below this generation.
    pub(crate) generation: u64,
    /// Whether the log of this generation must exist.
    pub(crate) log_expected: bool,
    /// The highest commit sequence assigned so far.
    pub(crate) commit_sequence: u64,
    pub(crate) layers: Vec<Layer>,
    /// Only in a store of fingerprints, which has no layers.
    pub(crate) directory: Option<DirectoryRef>,
    /// Only in a store of fingerprints, between two steps of a checkpoint: its segments have a part of this generation's
    /// log already. The number of keys without it.
    pub(crate) partly_merged: Option<u64>,
    /// Ordered by kind.
    pub(crate) sections: Vec<Section>,
    pub(crate) commits: Commits,
    /// Tells this generation from one of the same number that a copy of this store has come to: it follows from the
    /// salts of all logs whose keys are in the pages. The next log names it. 0 if there was none yet, or if builds that
    /// knew of no moments wrote the store.
    pub(crate) moment: u64,
    /// Only in a store that forgets: the time at which the last log began whose keys are in the pages, in milliseconds since
    /// 1970. 0 if there was none yet.
    pub(crate) clock: u64,
    /// Only in a store that forgets: no key in the pages is of an earlier step. 0 if that is not known.
    pub(crate) earliest: u64,
    /// Only in a store of fingerprints with runs above the oldest one, whose directory is `directory`.
    pub(crate) runs: Option<RunTable>,
}

impl Superblock {
    /// Returns the number of keys that all logs below this generation left.
    pub(crate) fn keys(&self) -> u64 {
        self.partly_merged.unwrap_or_else(|| self.keys_in_pages())
    }

    fn keys_in_pages(&self) -> u64 {
        let runs = self.sum_of_runs().unwrap_or(0);
        let layers = self.layers.iter();
        layers.fold(runs, |sum: u64, layer| sum.saturating_add(layer.keys))
    }

    /// Returns the bytes a file needs to hold all layers and sections.
    pub(crate) fn end_offset(&self) -> u64 {
        let ends = self.named().into_iter().map(|pages| pages.end);
        let directories = self.directories().map(|found| found.end_page);
        page_offset(ends.chain(directories).fold(FIRST_PAGE, u64::max))
    }

    /// Returns the bytes that hold the filter.
    pub(crate) fn filter_bytes(&self) -> u64 {
        match self.directory {
            Some(_) => self.segment_pages() * PAGE_BYTES as u64,
            None => self.end_offset(),
        }
    }

    /// Returns the directories of all runs, the oldest first.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &DirectoryRef> {
        let younger = self.runs().iter().map(|run: &Run| &run.directory);
        self.directory.iter().chain(younger)
    }

    /// Returns how many pages the segments of all runs have.
    pub(crate) fn segment_pages(&self) -> u64 {
        let pages = self.directories().map(|directory| directory.pages);
        pages.fold(0, u64::saturating_add)
    }

    /// Returns the page numbers of all layers and sections, and of directories, but not of their segments.
    pub(crate) fn named(&self) -> Vec<Range<u64>> {
        let layers = self.layers.iter().map(Layer::numbers);
        let directories = self.directories().flat_map(DirectoryRef::copies);
        layers
            .chain(directories)
            .chain(self.sections.iter().map(Section::numbers))
            .filter(|pages| !pages.is_empty())
            .collect()
    }

    /// Returns the pages before the end that belong to no layer and no section.
    pub(crate) fn unnamed(&self) -> Vec<Range<u64>> {
        let mut named = self.named();
        named.sort_unstable_by_key(|pages| pages.start);
        let mut at = FIRST_PAGE;
        let mut unnamed = Vec::new();
        for pages in named {
            if at < pages.start {
                unnamed.push(at..pages.start);
            }
            at = pages.end;
        }
        unnamed
    }

    /// Returns the section of a kind; of a sample the first part, whose rarity is that of all.
    pub(crate) fn section(&self, kind: SectionKind) -> Option<&Section> {
        self.sections_of(kind).next()
    }

    /// Returns the sections of a kind, the oldest first: several only of a sample.
    pub(crate) fn sections_of(&self, kind: SectionKind) -> impl Iterator<Item = &Section> {
        self.sections
            .iter()
            .filter(move |section| section.kind == kind)
    }

    /// Returns which of the two places it is written to.
    pub(crate) fn slot(&self) -> usize {
        (self.sequence % 2) as usize
    }

    /// Returns all bytes, padded to whole pages.
    pub(crate) fn encode(&self, header: &Header) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        let mut out = Encoder::new(&mut bytes);
        out.bytes(&SUPERBLOCK_MAGIC)
            .u32(0)
            .u32(0)
            .u64(self.sequence)
            .u64(self.generation)
            .bytes(&header.encode())
            .u64(self.keys())
            .u64(self.commit_sequence)
            .u32(self.flags())
            .u32(self.layers.len() as u32)
            .u32(self.commits.len() as u32)
            .u32(self.sections.len() as u32);
        for layer in &self.layers {
            layer.encode(&mut out);
        }
        if let Some(directory) = &self.directory {
            directory.encode(&mut out);
        }
        for section in &self.sections {
            section.encode(&mut out);
        }
        let before = bytes.len();
        encode_commits(&self.commits, &mut Encoder::new(&mut bytes));
        // By this sum commits are refused that no superblock has room for.
        assert_eq!((bytes.len() - before) as u64, writers_bytes(&self.commits));
        let mut out = Encoder::new(&mut bytes);
        if self.moment != 0 {
            out.u64(self.moment);
        }
        if self.clock != 0 {
            out.u64(self.clock);
        }
        if self.earliest != 0 {
            out.u64(self.earliest);
        }
        if let Some(table) = &self.runs {
            table.encode(&mut out);
        }
        let length = bytes.len();
        // One byte more would lie in the other superblock, or in the first page.
        assert!(length <= SUPERBLOCK_BYTES, "{length} bytes");
        put_u32(&mut bytes, SUPERBLOCK_LENGTH_OFFSET, length as u32);
        let crc = crc32fast::hash(&bytes[SUPERBLOCK_LENGTH_OFFSET..]);
        put_u32(&mut bytes, SUPERBLOCK_CRC_OFFSET, crc);
        bytes.resize(length.next_multiple_of(PAGE_BYTES), 0);
        self.expect_readable(&bytes, header);
        bytes
    }

    /// Asserts that a reader takes these bytes for this superblock. One that no reader takes is a lost checkpoint, whose log
    /// is removed as soon as it is written: what made it wrong must end here, in a release too. Bytes from the disk are never
    /// asserted.
    fn expect_readable(&self, bytes: &[u8], header: &Header) {
        // The counters of a forged file may stand at their end.
        let counters = [self.sequence, self.generation, self.commit_sequence];
        if counters.iter().all(|counter| *counter <= MAX_COUNTER) {
            assert_eq!(Self::decode(bytes, header).as_ref(), Ok(self));
        }
    }

    /// Returns the bytes of a superblock in its place, if its checksum is right.
    fn checked(bytes: &[u8]) -> Result<&[u8], SuperblockFault> {
        let Some(magic) = bytes.first_chunk::<8>() else {
            return Err(SuperblockFault::Length { got: 0 });
        };
        if *magic == [0; 8] {
            return Err(SuperblockFault::Blank);
        }
        if *magic != SUPERBLOCK_MAGIC {
            return Err(SuperblockFault::Magic { got: *magic });
        }
        if bytes.len() < FIXED_BYTES {
            let got = bytes.len() as u32;
            return Err(SuperblockFault::Length { got });
        }
        let length = u32_at(bytes, SUPERBLOCK_LENGTH_OFFSET);
        let size = length as usize;
        if size < FIXED_BYTES || size > bytes.len().min(SUPERBLOCK_BYTES) || !size.is_multiple_of(8)
        {
            return Err(SuperblockFault::Length { got: length });
        }
        let expected = crc32fast::hash(&bytes[SUPERBLOCK_LENGTH_OFFSET..size]);
        let got = u32_at(bytes, SUPERBLOCK_CRC_OFFSET);
        if expected != got {
            return Err(SuperblockFault::Checksum { expected, got });
        }
        Ok(&bytes[..size])
    }

    /// Returns the sequence and the copy of the header of a superblock with a right checksum.
    pub(crate) fn header_copy(bytes: &[u8]) -> Option<(u64, Vec<u8>)> {
        let bytes = Self::checked(bytes).ok()?;
        let mut input = Decoder::new(&bytes[SUPERBLOCK_LENGTH_OFFSET + 4..]);
        let sequence = input.u64()?;
        input.u64()?;
        let copy = input.bytes(HEADER_BYTES)?;
        Some((sequence, copy.to_vec()))
    }

    /// Checks `bytes`, a superblock's place in the file, and decodes the superblock.
    pub(crate) fn decode(bytes: &[u8], header: &Header) -> Result<Self, SuperblockFault> {
        let bytes = Self::checked(bytes)?;
        let length = bytes.len() as u32;
        let mut input = Decoder::new(&bytes[SUPERBLOCK_LENGTH_OFFSET + 4..]);
        Self::fields(&mut input, header).unwrap_or(Err(SuperblockFault::Length { got: length }))
    }

    fn fields(input: &mut Decoder<'_>, header: &Header) -> Option<Result<Self, SuperblockFault>> {
        let sequence = input.u64()?;
        let generation = input.u64()?;
        if !header.is_copied_in(&input.array::<HEADER_BYTES>()?) {
            return Some(Err(SuperblockFault::ForeignHeader));
        }
        let keys = input.u64()?;
        let commit_sequence = input.u64()?;
        let flags = input.u32()?;
        let (layer_count, commit_count, section_count) = (input.u32()?, input.u32()?, input.u32()?);
        let counters = (sequence, generation, commit_sequence);
        let counts = (layer_count, section_count);
        let partly_merged = match check_front((flags, header.kind), counters, counts) {
            Ok(is_partly_merged) => is_partly_merged.then_some(keys),
            Err(fault) => return Some(Err(fault)),
        };
        let layers = match take_layers(input, layer_count, header.kind)? {
            Ok(layers) => layers,
            Err(fault) => return Some(Err(fault)),
        };
        // The next one's pages are written in steps.
        let newest = (sequence, generation + u64::from(partly_merged.is_some()));
        let directory = match take_directory(input, header.kind, newest)? {
            Ok(directory) => directory,
            Err(fault) => return Some(Err(fault)),
        };
        let sections = match take_sections(input, section_count, (&layers, directory.as_ref()))? {
            Ok(sections) => sections,
            Err(fault) => return Some(Err(fault)),
        };
        let commits = match take_commits(input, commit_count, commit_sequence)? {
            Ok(commits) => commits,
            Err(fault) => return Some(Err(fault)),
        };
        let end = match take_end(input, (flags, header.window.is_some()), newest)? {
            Ok(end) => end,
            Err(fault) => return Some(Err(fault)),
        };
        let superblock = Self {
            sequence,
            generation,
            log_expected: flags & FLAG_LOG_EXPECTED != 0,
            commit_sequence,
            layers,
            directory,
            partly_merged,
            sections,
            commits,
            moment: end.moment,
            clock: end.clock,
            earliest: end.earliest,
            runs: end.runs,
        };
        let checked = superblock.check_runs(header.space());
        let checked = checked.and_then(|()| match superblock.keys() == keys {
            true => superblock.check_header(header),
            false => wrong_field("keys", "the sum over the layers", keys),
        });
        Some(checked.map(|()| superblock))
    }

    /// Checks that there is nothing that a store that forgets doesn't have.
    fn check_forgetting(&self) -> Result<(), SuperblockFault> {
        match self.section(SectionKind::Sample) {
            None => Ok(()),
            Some(sample) => wrong_field("sample", "none in a store that forgets", sample.count),
        }
    }

    /// Checks what the header says of the superblock.
    pub(super) fn check_header(&self, header: &Header) -> Result<(), SuperblockFault> {
        if header.has_label() && label_of(header, &self.commits).is_none() {
            return Err(SuperblockFault::Field {
                field: "label",
                expected: "an entry, as the header says",
                got: 0,
            });
        }
        if (self.clock, self.earliest) != (0, 0) && header.window.is_none() {
            let expected = "neither bit 4 nor 5 in a store that does not forget";
            return wrong_field("flags", expected, self.flags().into());
        }
        if header.window.is_some() {
            self.check_forgetting()?;
        }
        match header.kind {
            Kind::Scalable => return Ok(()),
            Kind::Fingerprint if self.layers.is_empty() => return Ok(()),
            Kind::Fingerprint => {
                return Err(SuperblockFault::Field {
                    field: "layers",
                    expected: "none in a store of fingerprints",
                    got: self.layers.len() as u64,
                });
            }
            _ => {}
        }
        let fits = |layer: &Layer| {
            layer.pages.checked_mul(PAYLOAD_BITS) == Some(header.bits)
                && layer.probes == header.probes
                && layer.capacity == header.capacity
                && (header.kind != Kind::Counting || Journal::of(layer).is_some())
        };
        match self.layers.as_slice() {
            [layer] if fits(layer) => Ok(()),
            layers => Err(SuperblockFault::Field {
                field: "layers",
                expected: "one layer, as the header says",
                got: layers.len() as u64,
            }),
        }
    }
}
