//! A log as FORMAT.md has it read: the chain of records, and the look behind its end.

use std::collections::BTreeMap;

use crate::support::forge::{u32_at, u64_at};
use crate::support::log::{COMMIT, CUT, INSERT, OPEN, header_crc, record_crc};
use crate::support::numbers::finalise;

const RECORDS: usize = 4096;
const RECORD_HEADER: usize = 24;
const MAX_PAYLOAD: usize = 65_536;

/// A record of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub offset: usize,
    pub kind: u16,
    pub handle: u64,
    pub payload: Vec<u8>,
}

/// A commit's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub sequence: u64,
    pub durable: u64,
    pub writer: String,
    pub tag: Vec<u8>,
}

/// A log whose header is good, and the records that follow on each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    pub records: Vec<Record>,
    /// Where they end.
    pub end: usize,
    pub generation: u64,
    /// The store's moment that the log was begun at.
    pub moment: u64,
    /// The store's moment once its keys are in the pages.
    pub next_moment: u64,
    /// Whether the file is shorter than it was made.
    pub truncated: bool,
}

impl Chain {
    /// Checks the header and reads the chain.
    pub fn read(file: &[u8], store_id: &[u8], generation: u64) -> Result<Self, &'static str> {
        if file.len() < RECORDS || file[..8] != *b"EVERSLOG" || u32_at(file, 12) != header_crc(file)
        {
            return Err("Header");
        }
        if u32_at(file, 8) != 1 {
            return Err("UnsupportedVersion");
        }
        if file[16..32] != *store_id {
            return Err("Foreign");
        }
        if u64_at(file, 48) != generation {
            return Err("WrongGeneration");
        }
        let mut chain = Self {
            records: Vec::new(),
            end: RECORDS,
            generation,
            moment: u64_at(file, 56),
            next_moment: next_moment(u64_at(file, 56), &file[32..48]),
            truncated: note(file).1 > file.len() as u64,
        };
        let mut previous = u32_at(file, 12);
        while !chain.is_cut()
            && let Some(record) = record_at(file, chain.end)
            && u32_at(file, chain.end + 4) == previous
        {
            previous = u32_at(file, chain.end);
            chain.end += RECORD_HEADER + record.payload.len();
            chain.records.push(record);
        }
        chain.check_tail(file)?;
        Ok(chain)
    }

    /// Whether the last record closes the log.
    pub fn is_cut(&self) -> bool {
        self.cut().is_some()
    }

    /// The payload of the record that closes the log.
    pub fn cut(&self) -> Option<&[u8]> {
        let last = self.records.last()?;
        (last.kind == CUT).then_some(&last.payload)
    }

    pub fn marks(&self) -> impl Iterator<Item = (&Record, Mark)> {
        let commits = self.records.iter().filter(|record| record.kind == COMMIT);
        commits.filter_map(|record| Some((record, mark(&record.payload)?)))
    }

    /// Hashes that count, and the offset of the record that made each count.
    pub fn counted(&self, transactional: bool) -> BTreeMap<u64, usize> {
        let mut counted = BTreeMap::new();
        let mut pending: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for record in &self.records {
            match record.kind {
                INSERT => {
                    let hashes = record.payload.chunks_exact(8).map(|hash| u64_at(hash, 0));
                    if transactional {
                        pending.entry(record.handle).or_default().extend(hashes);
                    } else {
                        hashes.for_each(|hash| {
                            counted.entry(hash).or_insert(record.offset);
                        });
                    }
                }
                COMMIT => {
                    for hash in pending.remove(&record.handle).unwrap_or_default() {
                        counted.entry(hash).or_insert(record.offset);
                    }
                }
                _ => {}
            }
        }
        counted
    }

    /// A mark behind the end that had more durable than the chain holds accuses it.
    fn check_tail(&self, file: &[u8]) -> Result<(), &'static str> {
        if self.is_cut() {
            return Ok(());
        }
        if note(file).0 > self.end as u64 {
            return Err("Damaged");
        }
        let mut offset = self.end + 8;
        while offset + RECORD_HEADER < file.len() {
            if file[offset + 12] == COMMIT as u8
                && let Some(record) = record_at(file, offset)
                && record.kind == COMMIT
                && let Some(mark) = mark(&record.payload)
                && mark.durable > self.end as u64
            {
                return Err("Damaged");
            }
            offset += 8;
        }
        Ok(())
    }
}

/// What was durable, and the length that the file was made with.
fn note(file: &[u8]) -> (u64, u64) {
    let note = &file[512..536];
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&file[32..48]);
    hasher.update(&note[4..]);
    let durable = u64_at(note, 8);
    match hasher.finalize() == u32_at(note, 0) && durable >= RECORDS as u64 {
        true => (durable, u64_at(note, 16)),
        false => (0, 0),
    }
}

fn next_moment(moment: u64, salt: &[u8]) -> u64 {
    let mixed = finalise(finalise(moment).wrapping_add(u64_at(salt, 0)));
    finalise(mixed.wrapping_add(u64_at(salt, 8))).max(1)
}

/// The record at a place, whatever the one before it.
fn record_at(file: &[u8], offset: usize) -> Option<Record> {
    let header = file.get(offset..offset + RECORD_HEADER)?;
    let length = u32_at(header, 8) as usize;
    let kind = u32_at(header, 12);
    let sane = length <= MAX_PAYLOAD && length.is_multiple_of(8);
    if !sane || !(u32::from(OPEN)..=u32::from(CUT)).contains(&kind) {
        return None;
    }
    let record = file.get(offset..offset + RECORD_HEADER + length)?;
    (record_crc(file, offset, record) == u32_at(header, 0)).then(|| Record {
        offset,
        kind: kind as u16,
        handle: u64_at(header, 16),
        payload: record[RECORD_HEADER..].to_vec(),
    })
}

fn mark(payload: &[u8]) -> Option<Mark> {
    let length = |at: usize| {
        let bytes = payload.get(at..at + 2)?;
        Some(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    };
    let (writer, tag) = (length(16)?, length(18)?);
    Some(Mark {
        sequence: u64_at(payload, 0),
        durable: u64_at(payload, 8),
        writer: String::from_utf8(payload.get(24..24 + writer)?.to_vec()).ok()?,
        tag: payload.get(24 + writer..24 + writer + tag)?.to_vec(),
    })
}
