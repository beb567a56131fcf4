//! Changing fields of a store file and mending the checksums, as an attacker would.
//!
//! Offsets are those of FORMAT.md, written out: a test that took them from the code would not
//! notice that they moved.

use std::fs;
use std::path::Path;

/// Where the superblocks lie.
pub const SUPERBLOCKS: [usize; 2] = [16_384, 73_728];
/// Where the header's copy lies in a superblock.
const HEADER_COPY: usize = 32;
const HEADER_CRC: usize = 252;

/// Overwrites bytes of a file.
pub fn patch(path: &Path, offset: usize, bytes: &[u8]) {
    let mut file = fs::read(path).unwrap();
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
    fs::write(path, file).unwrap();
}

pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap())
}

pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap())
}

/// The CRC that a page must have at a number of the file that begins with this header.
pub fn page_crc(header: &[u8], number: u64, page: &[u8]) -> u32 {
    let is_bound = header[32] & 4 != 0;
    let owner = if is_bound { &header[112..128] } else { &[] };
    crc32fast::hash(&[owner, &number.to_le_bytes(), &page[4..]].concat())
}

fn set(file: &mut [u8], offset: usize, bytes: &[u8]) {
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
}

fn seal_header(file: &mut [u8]) {
    let crc = crc32fast::hash(&file[..HEADER_CRC]);
    set(file, HEADER_CRC, &crc.to_le_bytes());
}

fn seal_superblock(file: &mut [u8], slot: usize) {
    let start = SUPERBLOCKS[slot];
    let length = u32_at(file, start + 12) as usize;
    // An absurd length is what some forge: the checksum over it is never computed.
    if let Some(covered) = file.get(start + 12..start + length) {
        let crc = crc32fast::hash(covered);
        set(file, start + 8, &crc.to_le_bytes());
    }
}

/// Whether a superblock has ever been written.
pub fn is_written(file: &[u8], slot: usize) -> bool {
    file[SUPERBLOCKS[slot]..][..8] == *b"EVERSUPR"
}

/// The slot of the newest superblock.
pub fn newest(path: &Path) -> usize {
    let file = fs::read(path).unwrap();
    let sequence = |slot: usize| match is_written(&file, slot) {
        true => u64_at(&file, SUPERBLOCKS[slot] + 16),
        false => 0,
    };
    usize::from(sequence(1) > sequence(0))
}

/// Changes the header, and not the copies of it.
pub fn header_alone(path: &Path, offset: usize, bytes: &[u8]) {
    let mut file = fs::read(path).unwrap();
    set(&mut file, offset, bytes);
    seal_header(&mut file);
    fs::write(path, file).unwrap();
}

/// Changes the header and its copies.
pub fn header(path: &Path, offset: usize, bytes: &[u8]) {
    header_alone(path, offset, bytes);
    let mut file = fs::read(path).unwrap();
    for slot in [0, 1] {
        if is_written(&file, slot) {
            file.copy_within(0..256, SUPERBLOCKS[slot] + HEADER_COPY);
            seal_superblock(&mut file, slot);
        }
    }
    fs::write(path, file).unwrap();
}

/// Changes a superblock.
pub fn superblock(path: &Path, slot: usize, offset: usize, bytes: &[u8]) {
    let mut file = fs::read(path).unwrap();
    set(&mut file, SUPERBLOCKS[slot] + offset, bytes);
    seal_superblock(&mut file, slot);
    fs::write(path, file).unwrap();
}
