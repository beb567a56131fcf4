//! A fingerprint store as another program would write it after FORMAT.md: segments of few pages, in any order in the file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use everseen::Kind;
use everseen::testing::{LEAST_BUFFER, Options};

use super::bytes::{finalise, page_crc};
use super::doc::Layout;
use super::fingerprints::{encoded_at, put};
use super::refused::mend_superblock;
use super::seed;
use super::store_file::superblock_places;

pub(crate) fn options() -> Options {
    let options = Options::new().kind(Kind::Fingerprint).buffer(LEAST_BUFFER);
    options.seed(seed()).measured(false).background(false)
}

/// The lowest hash of a fingerprint ("Segments").
pub(crate) fn hash_of(fingerprint: u64, space: u64) -> u64 {
    u64::try_from((u128::from(fingerprint) << 64).div_ceil(u128::from(space))).unwrap()
}

/// Puts a field of a table into bytes that begin where the table does.
pub(crate) fn set(bytes: &mut [u8], section: &str, name: &str, value: u64) {
    put(bytes, &Layout::of(section), name, value);
}

/// Mends the CRC of a page.
pub(crate) fn seal(file: &mut [u8], number: u64) {
    let page = number as usize * 4096..(number as usize + 1) * 4096;
    let crc = page_crc(file, number, &file[page.clone()]);
    set(&mut file[page], "Pages", "crc", crc.into());
}

/// What was forged.
pub(crate) struct Forged {
    pub(crate) path: PathBuf,
    pub(crate) file: Vec<u8>,
    pub(crate) space: u64,
    pub(crate) fingerprints: BTreeSet<u64>,
    /// First page and pages of fingerprints of each segment, in the order of the directory.
    pub(crate) extents: Vec<(u64, u64)>,
    /// First page of each copy of the directory.
    pub(crate) places: [u64; 2],
    /// Where the only superblock lies.
    pub(crate) superblock: usize,
}

impl Forged {
    /// Where the directory entry lies in the file.
    pub(crate) fn entry(&self) -> usize {
        self.superblock + Layout::of("Superblocks").end()
    }

    /// Where the entry of a segment lies in the file, in both copies of the directory.
    pub(crate) fn segment_entries(&self, index: u64) -> [(u64, usize); 2] {
        self.places.map(|place| {
            let page = place + index / 102;
            (
                page,
                page as usize * 4096 + 16 + 40 * (index % 102) as usize,
            )
        })
    }
}

/// A list in a range, from nothing to 40 numbers.
fn list(first: u64, end: u64) -> Vec<u64> {
    let count = finalise(first) % 41;
    let drawn = (0..count).map(|turn| first + finalise(first ^ finalise(turn)) % (end - first));
    drawn.collect::<BTreeSet<u64>>().into_iter().collect()
}

/// Appends the pages of a segment, which begin at a number, and returns how many fingerprints they have.
fn segment(file: &mut Vec<u8>, fences: &[u64], first_page: u64, into: &mut BTreeSet<u64>) -> u64 {
    let mut keys = 0;
    let (pages, end) = (fences.len() - 1, fences[fences.len() - 1]);
    assert!(fences.is_sorted() && fences[0] < end);
    let mut number = first_page;
    for ends in fences.windows(2) {
        let found = list(ends[0], ends[1]);
        // At most 128 high parts.
        let low_bits = (ends[1] - ends[0]).ilog2().saturating_sub(6);
        let (page, _) = encoded_at(&found, ends[0]..ends[1], low_bits, (number, 1));
        file.extend(page);
        seal(file, number);
        keys += found.len() as u64;
        into.extend(found);
        number += 1;
    }
    for some in fences[..pages].chunks(510) {
        let begin = file.len();
        file.resize(begin + 4096, 0);
        let page = &mut file[begin..];
        set(page, "Page of fences", "occupancy", some.len() as u64);
        set(page, "Page of fences", "generation", 1);
        for (fence, place) in some.iter().zip(page[16..].chunks_exact_mut(8)) {
            place.copy_from_slice(&fence.to_le_bytes());
        }
        seal(file, number);
        number += 1;
    }
    keys
}

/// Appends a copy of the directory, which begins at the file's end.
fn directory(file: &mut Vec<u8>, entries: &[u8]) -> u64 {
    let place = file.len() as u64 / 4096;
    for (number, some) in (place..).zip(entries.chunks(102 * 40)) {
        file.extend([0; 16]);
        file.extend(some);
        file.resize(number as usize * 4096 + 4096, 0);
        let page = &mut file[number as usize * 4096..];
        let count = some.len() as u64 / 40;
        set(page, "Page of the directory", "occupancy", count);
        set(page, "Page of the directory", "generation", 1);
        seal(file, number);
    }
    place
}

/// Makes a store with a segment for each number of pages; the file has them backwards.
pub(crate) fn forge(path: &Path, pages: &[u64]) -> Forged {
    let made = options().capacity(1 << 20).fpr(1e-6).create(path).unwrap();
    made.close().unwrap();
    let mut file = std::fs::read(path).unwrap();
    assert_eq!(file.len(), 131_072);
    let space = Layout::of("Header").number(&file, "bits");
    let count = pages.len() as u64;
    let mut begins: Vec<u64> = (0..=count).map(|index| space / count * index).collect();
    let mut fingerprints = BTreeSet::new();
    let mut entries = Vec::new();
    let mut extents = Vec::new();
    begins[pages.len()] = space;
    for (index, pages) in pages.iter().enumerate().rev() {
        let (first, end) = (begins[index], begins[index + 1]);
        let step = (end - first) / pages;
        let mut fences: Vec<u64> = (0..*pages).map(|page| first + step * page).collect();
        fences.push(end);
        let first_page = file.len() as u64 / 4096;
        let keys = segment(&mut file, &fences, first_page, &mut fingerprints);
        let mut entry = [0; 40];
        for (name, value) in [
            ("first", first),
            ("first_page", first_page),
            ("keys", keys),
            ("generation", 1),
            ("pages", *pages),
        ] {
            set(&mut entry, "Segment entry", name, value);
        }
        entries.splice(0..0, entry);
        extents.insert(0, (first_page, *pages));
    }
    let segment_pages = file.len() as u64 / 4096 - 32;
    let places = [
        directory(&mut file, &entries),
        directory(&mut file, &entries),
    ];
    let end_page = file.len() as u64 / 4096;
    // A new store has its first superblock in B, and nothing in A.
    let superblock = superblock_places()[1].0;
    let keys = fingerprints.len() as u64;
    set(&mut file[superblock..], "Superblocks", "keys", keys);
    let entry = superblock + Layout::of("Superblocks").end();
    for (name, value) in [
        ("place_a", places[0]),
        ("place_b", places[1]),
        ("segments", count),
        ("segment_pages", segment_pages),
        ("directory_keys", keys),
        ("end_page", end_page),
    ] {
        set(&mut file[entry..], "Directory entry", name, value);
    }
    mend_superblock(&mut file[superblock..]);
    std::fs::write(path, &file).unwrap();
    Forged {
        path: path.to_owned(),
        file,
        space,
        fingerprints,
        extents,
        places,
        superblock,
    }
}
