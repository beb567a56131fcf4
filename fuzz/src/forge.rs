//! Changing bytes of a store's files and mending the checksums over them. Offsets are those of FORMAT.md.

use arbitrary::Arbitrary;

pub const SUPERBLOCKS: [usize; 2] = [16_384, 73_728];
pub const SUPERBLOCK: usize = 57_344;
const INTENTS: [usize; 2] = [4096, 8192];
const PAGES: usize = 131_072;
const PAGE: usize = 4096;
const RECORDS: usize = 4096;

/// Bytes that replace others.
#[derive(Debug, Clone, Arbitrary)]
pub struct Patch {
    pub offset: u16,
    pub bytes: Vec<u8>,
}

/// Patches `bytes` from `start` on; what lies beyond the end is dropped.
pub fn patch(bytes: &mut [u8], start: usize, patches: &[Patch]) {
    for patch in patches {
        let at = start + usize::from(patch.offset);
        if let Some(place) = bytes.get_mut(at..) {
            let length = place.len().min(patch.bytes.len());
            place[..length].copy_from_slice(&patch.bytes[..length]);
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// Mends the checksum of a header at the front of `file`.
pub fn seal_header(file: &mut [u8]) {
    if file.len() >= 256 {
        let sum = crc(&[&file[..252]]);
        put(file, 252, sum);
    }
}

/// Mends the checksum of a superblock whose place is `place`.
pub fn seal_superblock(place: &mut [u8]) {
    if place.len() < 16 {
        return;
    }
    let length = u32_at(place, 12) as usize;
    if let Some(covered) = place.get(12..length) {
        let sum = crc(&[covered]);
        put(place, 8, sum);
    }
}

/// Copies the header into a superblock's place.
pub fn bind_superblock(header: &[u8], place: &mut [u8]) {
    if place.len() >= 288 && header.len() >= 256 {
        place[32..288].copy_from_slice(&header[..256]);
    }
}

/// Mends the checksum of a page at a place in a file. `owner` is the id of the store that its pages are bound to, or
/// nothing.
pub fn seal_page(owner: &[u8], number: u64, page: &mut [u8]) {
    let sum = crc(&[owner, &number.to_le_bytes(), &page[4..]]);
    put(page, 0, sum);
}

/// Mends all checksums of a store file: of superblocks, intents and pages, and of the header.
pub fn seal_store(file: &mut [u8]) {
    seal_header(file);
    if file.len() < PAGES {
        return;
    }
    let header = file[..256].to_vec();
    for start in SUPERBLOCKS {
        let place = &mut file[start..start + SUPERBLOCK];
        if place[..8] == *b"EVERSUPR" {
            bind_superblock(&header, place);
            seal_superblock(place);
        }
    }
    for start in INTENTS {
        let sum = crc(&[&file[start + 12..start + 64]]);
        put(file, start + 8, sum);
    }
    let owner: &[u8] = match header[32] & 4 {
        0 => &[],
        _ => &header[112..128],
    };
    for (page, bytes) in (PAGES / PAGE..).zip(file[PAGES..].chunks_exact_mut(PAGE)) {
        if bytes.iter().any(|byte| *byte != 0) {
            seal_page(owner, page as u64, bytes);
        }
    }
}

/// Mends the checksums of a log and makes each record follow on the one before it, as far as lengths allow.
pub fn seal_log(file: &mut [u8]) {
    if file.len() < RECORDS {
        return;
    }
    // Those of stores that forget have a clock in their header.
    let header = if u32_at(file, 8) == 2 { 72 } else { 64 };
    let mut previous = crc(&[&file[..12], &file[16..header]]);
    put(file, 12, previous);
    let salt: [u8; 16] = std::array::from_fn(|index| file[32 + index]);
    let mut at = RECORDS;
    while at + 24 <= file.len() {
        let end = at + 24 + u32_at(file, at + 8) as usize;
        if end > file.len() || u32_at(file, at + 12) == 0 {
            break;
        }
        put(file, at + 4, previous);
        let sum = crc(&[&salt, &(at as u64).to_le_bytes(), &file[at + 4..end]]);
        put(file, at, sum);
        previous = sum;
        at = end;
    }
}
