//! Reads and writes the directory of a store of fingerprints (FORMAT.md, "Segments").

use std::io;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::directory_ref::{SEGMENTS_IN_PAGE, directory_pages};
use crate::file::layout::{REUSED_OFFSET, page_offset};
use crate::file::{DirectoryRef, FormatError, Superblock};
use crate::fingerprint::segment::directory::{check, decode_page, encode};
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::fault::SegmentFault;
use crate::fingerprint::segment::reuse::before_writing;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES};
use crate::sys::storage::{StorageFile, read_exact_at, write_all_at};

/// The outcome of reading a directory.
pub(crate) struct ReadDirectory {
    pub(crate) segments: Vec<Segment>,
    /// The pages of one copy or the other that are damaged, with what is wrong.
    pub(crate) damaged: Vec<SegmentFault>,
}

/// Reads and checks the directory that a superblock names. A page that is damaged is read from the other copy.
pub(crate) fn read_directory(
    file: &dyn StorageFile,
    path: &Path,
    directory: &DirectoryRef,
    (space, binding): (FingerprintSpace, Binding),
) -> Result<ReadDirectory> {
    let failed = |fault: SegmentFault| Error::Format {
        path: path.to_owned(),
        source: fault.into(),
    };
    let pages = directory_pages(directory.segments);
    let copies = directory.copies().map(|copy| read_pages(file, path, copy));
    let [one, other] = copies;
    let (one, other) = (one?, other?);
    let mut found = ReadDirectory {
        segments: Vec::with_capacity(directory.segments as usize),
        damaged: Vec::new(),
    };
    for index in 0..pages {
        let before = index * SEGMENTS_IN_PAGE;
        let count = (directory.segments - before).min(SEGMENTS_IN_PAGE) as usize;
        let decode = |bytes: &[[u8; PAGE_BYTES]], place: u64| {
            let page = &bytes[index as usize];
            let (number, end) = (place + index, directory.end_page);
            decode_page(binding, page, number, directory.generation, count, end)
        };
        let first = decode(&one, directory.places[0]);
        let second = decode(&other, directory.places[1]);
        let segments = match (first, second) {
            (Ok(segments), Ok(_)) => segments,
            (Ok(segments), Err(fault)) | (Err(fault), Ok(segments)) => {
                found.damaged.push(fault);
                segments
            }
            (Err(fault), Err(_)) => return Err(failed(fault)),
        };
        found.segments.extend(segments);
    }
    check_whole(directory, &found.segments, space).map_err(failed)?;
    Ok(found)
}

/// Replaces what `bytes` holds by all pages of a segment, without checking any. Memory that is used again is cheaper than
/// new memory, which the system clears first.
pub(crate) fn read_segment(
    file: &dyn StorageFile,
    path: &Path,
    segment: &Segment,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let extent = segment.extent();
    let length = (extent.end - extent.start) as usize * PAGE_BYTES;
    let more = length.saturating_sub(bytes.len());
    bytes
        .try_reserve_exact(more)
        .map_err(|_| Error::io("read pages of", path, io::ErrorKind::OutOfMemory.into()))?;
    bytes.resize(length, 0);
    read_exact_at(file, bytes, page_offset(extent.start))
        .map_err(|error| Error::io("read pages of", path, error))
}

/// Checks all segments together, each of which was checked before: their order, and what a superblock says of their sums.
pub(crate) fn check_whole(
    directory: &DirectoryRef,
    segments: &[Segment],
    space: FingerprintSpace,
) -> Result<(), SegmentFault> {
    check(segments, space)?;
    let sums = sums_of(segments);
    match sums == (directory.pages, directory.keys) {
        true => Ok(()),
        false => Err(SegmentFault::Keys {
            expected: directory.keys,
            got: sums.1,
        }),
    }
}

/// Returns the pages and the fingerprints of all segments.
fn sums_of(segments: &[Segment]) -> (u64, u64) {
    segments.iter().fold((0, 0), |(pages, keys), segment| {
        let extent = segment.extent();
        (pages + (extent.end - extent.start), keys + segment.keys)
    })
}

fn read_pages(
    file: &dyn StorageFile,
    path: &Path,
    pages: Range<u64>,
) -> Result<Vec<[u8; PAGE_BYTES]>> {
    let mut bytes = vec![[0; PAGE_BYTES]; (pages.end - pages.start) as usize];
    read_exact_at(file, bytes.as_flattened_mut(), page_offset(pages.start))
        .map_err(|error| Error::io("read the directory of", path, error))?;
    Ok(bytes)
}

/// Writes both copies of a directory to pages that nothing names, without a sync, and returns what a superblock of this
/// sequence says of it. `end_page` is the end of all pages of segments.
pub(crate) fn write_directory(
    file: &dyn StorageFile,
    path: &Path,
    binding: Binding,
    segments: &[Segment],
    places: [u64; 2],
    (version, generation): (u64, u64),
) -> Result<DirectoryRef> {
    expect_apart(segments, places);
    for place in places {
        let bytes = encode(binding, segments, place, generation);
        write_all_at(file, &bytes, page_offset(place))
            .map_err(|error| Error::io("write the directory of", path, error))?;
    }
    let (pages, keys) = sums_of(segments);
    let mut directory = DirectoryRef {
        places,
        segments: segments.len() as u64,
        pages,
        keys,
        end_page: 0,
        version,
        generation,
    };
    let ends = segments.iter().map(|segment| segment.extent().end);
    let copies = directory.copies().map(|copy| copy.end);
    directory.end_page = ends.chain(copies).fold(0, u64::max);
    Ok(directory)
}

/// Asserts that no two segments share a page, nor any with a copy of the directory: written over each other, both would be
/// lost before a reader notices.
fn expect_apart(segments: &[Segment], places: [u64; 2]) {
    let pages = directory_pages(segments.len() as u64);
    let copies = places.map(|place| place..place + pages);
    let mut all: Vec<_> = segments.iter().map(Segment::extent).chain(copies).collect();
    all.sort_unstable_by_key(|pages| pages.start);
    let overlap = all.windows(2).find(|pair| pair[1].start < pair[0].end);
    assert!(overlap.is_none(), "{overlap:?}");
}

/// Announces to readers that all room which the directory of this version does not name may be written from here on.
pub(crate) fn raise_reused(file: &dyn StorageFile, path: &Path, version: u64) -> Result<()> {
    write_all_at(file, &version.to_le_bytes(), REUSED_OFFSET)
        .map_err(|error| Error::io("write", path, error))?;
    before_writing();
    Ok(())
}

/// Lowers the word `reused` if it is above the version of the newest directory. Nothing but damage leaves it so: it lies
/// under no CRC. Every look-up would find its directory passed, and wait for a newer one for ever. The caller is the first
/// handle, so nobody reads by an older directory.
pub(crate) fn repair_reused(
    file: &dyn StorageFile,
    path: &Path,
    superblock: &Superblock,
) -> Result<()> {
    let Some(directory) = &superblock.directory else {
        return Ok(());
    };
    let mut word = [0; 8];
    read_exact_at(file, &mut word, REUSED_OFFSET)
        .map_err(|error| Error::io("read", path, error))?;
    if u64::from_le_bytes(word) <= directory.version {
        return Ok(());
    }
    write_all_at(file, &directory.version.to_le_bytes(), REUSED_OFFSET)
        .map_err(|error| Error::io("write", path, error))
}

/// Returns the pages that a superblock and the segments of its directory name.
pub(crate) fn named<'a>(
    superblock: &'a Superblock,
    segments: &'a [Segment],
) -> impl Iterator<Item = Range<u64>> + 'a {
    let segments = segments.iter().map(Segment::extent);
    superblock.named().into_iter().chain(segments)
}

/// Returns the directory and the space of a store of fingerprints.
///
/// # Errors
/// Fails for a superblock without a directory, which no store of fingerprints has.
pub(crate) fn expect_directory(
    path: &Path,
    superblock: &Superblock,
    space: Option<FingerprintSpace>,
) -> Result<(DirectoryRef, FingerprintSpace)> {
    superblock
        .directory
        .zip(space)
        .ok_or_else(|| Error::Format {
            path: path.to_owned(),
            source: FormatError::HeaderField {
                field: "kind",
                expected: "a superblock with a directory",
                got: "none".to_owned(),
            },
        })
}
