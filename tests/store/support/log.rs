//! Reading and forging logs, independently of the library's own code.

use std::fs;
use std::path::Path;

use super::forge::{u32_at, u64_at};

pub const RECORDS: usize = 4096;
pub const OPEN: u16 = 1;
pub const INSERT: u16 = 2;
pub const COMMIT: u16 = 3;
pub const CUT: u16 = 4;

/// A valid record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub offset: usize,
    pub end: usize,
    pub crc: u32,
    pub kind: u16,
    pub handle: u64,
    pub payload: Vec<u8>,
}

/// The checksum that a record at `offset` of a log must carry.
pub fn record_crc(file: &[u8], offset: usize, record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&file[32..48]);
    hasher.update(&(offset as u64).to_le_bytes());
    hasher.update(&record[4..]);
    hasher.finalize()
}

/// The checksum that the header of a log must carry.
pub fn header_crc(file: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&file[..12]);
    hasher.update(&file[16..64]);
    hasher.finalize()
}

/// The records of a log, up to the first that does not verify or does not follow.
pub fn records(path: &Path) -> Vec<Found> {
    let file = fs::read(path).unwrap();
    let mut previous = header_crc(&file);
    assert_eq!(u32_at(&file, 12), previous);
    let mut offset = RECORDS;
    let mut found = Vec::new();
    while offset + 24 <= file.len() {
        let length = u32_at(&file, offset + 8) as usize;
        let end = offset + 24 + length;
        let crc = u32_at(&file, offset);
        if end > file.len()
            || u32_at(&file, offset + 4) != previous
            || record_crc(&file, offset, &file[offset..end]) != crc
        {
            break;
        }
        found.push(Found {
            offset,
            end,
            crc,
            kind: u16::from_le_bytes([file[offset + 12], file[offset + 13]]),
            handle: u64_at(&file, offset + 16),
            payload: file[offset + 24..end].to_vec(),
        });
        previous = crc;
        offset = end;
    }
    found
}

/// Where the valid records end.
pub fn end(path: &Path) -> usize {
    records(path).last().map_or(RECORDS, |record| record.end)
}

/// Appends a record whose checksum is right; answers where it begins.
pub fn append(path: &Path, kind: u16, handle: u64, payload: &[u8]) -> usize {
    let offset = end(path);
    put(path, offset, kind, handle, payload);
    offset
}

/// Writes a record over what follows the records before `offset`, with a checksum that is right.
pub fn put(path: &Path, offset: usize, kind: u16, handle: u64, payload: &[u8]) {
    assert_eq!(payload.len() % 8, 0);
    let previous = records(path)
        .iter()
        .rfind(|record| record.end == offset)
        .map(|record| record.crc);
    let mut file = fs::read(path).unwrap();
    let previous = previous.unwrap_or(header_crc(&file));
    let mut record = vec![0; 24];
    record[4..8].copy_from_slice(&previous.to_le_bytes());
    record[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    record[12..14].copy_from_slice(&kind.to_le_bytes());
    record[16..24].copy_from_slice(&handle.to_le_bytes());
    record.extend_from_slice(payload);
    let crc = record_crc(&file, offset, &record);
    record[..4].copy_from_slice(&crc.to_le_bytes());
    if file.len() < offset + record.len() {
        file.resize(offset + record.len(), 0);
    }
    file[offset..offset + record.len()].copy_from_slice(&record);
    fs::write(path, file).unwrap();
}

/// A commit's payload.
pub fn mark(sequence: u64, durable: u64, writer: &[u8], tag: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend_from_slice(&sequence.to_le_bytes());
    payload.extend_from_slice(&durable.to_le_bytes());
    payload.extend_from_slice(&(writer.len() as u16).to_le_bytes());
    payload.extend_from_slice(&(tag.len() as u16).to_le_bytes());
    payload.extend_from_slice(&[0; 4]);
    payload.extend_from_slice(writer);
    payload.extend_from_slice(tag);
    payload.resize(payload.len().next_multiple_of(8), 0);
    payload
}

/// Blanks the note of a log: what is left after a power cut that took it, or by a build that writes none.
pub fn blank_note(path: &Path) {
    let mut file = fs::read(path).unwrap();
    assert_ne!(file[512..536], [0; 24]);
    file[512..536].fill(0);
    fs::write(path, file).unwrap();
}

/// Changes the header of a log and mends its checksum. Its records no longer follow on it.
pub fn header(path: &Path, offset: usize, bytes: &[u8]) {
    let mut file = fs::read(path).unwrap();
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
    let crc = header_crc(&file);
    file[12..16].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, file).unwrap();
}
