//! Reads and writes the directory of a store of fingerprints (FORMAT.md, "Segments").

use std::io;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::directory_ref::{SEGMENTS_IN_PAGE, directory_pages};
use crate::file::layout::{REUSED_OFFSET, first_shared, page_offset};
use crate::file::{DirectoryRef, FormatError, Run, Superblock};
use crate::fingerprint::segment::directory::{check, check_lists, decode_page, encode};
use crate::fingerprint::segment::entry::{List, Segment};
use crate::fingerprint::segment::fault::SegmentFault;
use crate::fingerprint::segment::reuse::before_writing;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES};
use crate::sys::storage::{StorageFile, read_exact_at, write_all_at};

/// How many pages of a copy are read at a time.
const PAGES_AT_ONCE: usize = 64;

/// The outcome of reading a directory.
pub(crate) struct ReadDirectory {
    pub(crate) segments: Vec<Segment>,
    /// The pages of one copy or the other that are damaged, with what is wrong.
    pub(crate) damaged: Vec<SegmentFault>,
}

/// Reads and checks the directory of the oldest run. A page that is damaged is read from the other copy.
pub(crate) fn read_directory(
    file: &dyn StorageFile,
    path: &Path,
    directory: &DirectoryRef,
    (space, binding): (FingerprintSpace, Binding),
) -> Result<ReadDirectory> {
    let check = |segments: &[Segment]| check_whole(directory, segments, space);
    read_entries((file, path), directory, binding, check)
}

/// Reads and checks the directory of a run above the oldest one.
pub(crate) fn read_run_directory(
    file: &dyn StorageFile,
    path: &Path,
    run: &Run,
    (space, binding): (FingerprintSpace, Binding),
) -> Result<ReadDirectory> {
    let check = |segments: &[Segment]| check_whole_run(run, segments, space);
    read_entries((file, path), &run.directory, binding, check)
}

/// Reads a directory and checks its pages; `check` checks what they say together.
fn read_entries(
    (file, path): (&dyn StorageFile, &Path),
    directory: &DirectoryRef,
    binding: Binding,
    check: impl FnOnce(&[Segment]) -> Result<(), SegmentFault>,
) -> Result<ReadDirectory> {
    let failed = |fault: SegmentFault| Error::Format {
        path: path.to_owned(),
        source: fault.into(),
    };
    let pages = directory_pages(directory.segments);
    let mut found = ReadDirectory {
        segments: Vec::new(),
        damaged: Vec::new(),
    };
    // A file with holes may say that it has any number of segments. Its first page that is none ends the reading.
    for begin in (0..pages).step_by(PAGES_AT_ONCE) {
        let piece = begin..pages.min(begin + PAGES_AT_ONCE as u64);
        let copies = directory.places.map(|place| {
            let pages = place + piece.start..place + piece.end;
            read_pages(file, path, pages)
        });
        let [one, other] = copies;
        let (one, other) = (one?, other?);
        for index in piece {
            let before = index * SEGMENTS_IN_PAGE;
            let count = (directory.segments - before).min(SEGMENTS_IN_PAGE) as usize;
            let decode = |bytes: &[[u8; PAGE_BYTES]], place: u64| {
                let page = &bytes[(index - begin) as usize];
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
    }
    check(&found.segments).map_err(failed)?;
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

/// Checks all segments of a run together: their order, and what the run table says of their sums.
pub(crate) fn check_whole_run(
    run: &Run,
    segments: &[Segment],
    space: FingerprintSpace,
) -> Result<(), SegmentFault> {
    check_lists(segments, space, run.begin)?;
    let went = segments.partition_point(|one| one.list == List::Came);
    let (came, went) = segments.split_at(went);
    let (came, went) = (sums_of(came), sums_of(went));
    if came.0 + went.0 != run.directory.pages {
        return Err(SegmentFault::Field {
            field: "pages",
            expected: "what the run's segments have",
            got: run.directory.pages,
        });
    }
    for (expected, got) in [(run.came(), came.1), (run.went, went.1)] {
        // Entries below the cursor are still in their segments.
        let is_right = match run.begin {
            0 => expected == got,
            _ => expected <= got,
        };
        if !is_right {
            return Err(SegmentFault::Keys { expected, got });
        }
    }
    Ok(())
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

/// Writes both copies of the oldest run's directory to pages that nothing names, without a sync, and returns what a
/// superblock of this sequence says of it. `end_page` is the end of all pages of segments.
pub(crate) fn write_directory(
    file: &dyn StorageFile,
    path: &Path,
    binding: Binding,
    segments: &[Segment],
    places: [u64; 2],
    numbers: (u64, u64),
) -> Result<DirectoryRef> {
    // Segments leave no gap: each ends where the next one begins.
    assert!(segments.first().is_none_or(|front| front.first == 0));
    // What went would be in no run below.
    assert!(segments.iter().all(|one| one.list == List::Came));
    write_entries((file, path), binding, segments, places, numbers)
}

/// Does the same with the directory of a run above the oldest one, whose entries count from `begin` on. Its `keys` are all
/// entries of its segments.
pub(crate) fn write_run_directory(
    to: (&dyn StorageFile, &Path),
    binding: Binding,
    (segments, begin): (&[Segment], u64),
    places: [u64; 2],
    numbers: (u64, u64),
) -> Result<DirectoryRef> {
    let mut lists = segments.chunk_by(|one, next| one.list == next.list);
    assert!(lists.all(|list| list[0].first <= begin), "a gap in a run");
    assert!(!segments.is_empty());
    write_entries(to, binding, segments, places, numbers)
}

fn write_entries(
    (file, path): (&dyn StorageFile, &Path),
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
    let shared = first_shared(segments.iter().map(Segment::extent).chain(copies));
    assert_eq!(shared, None);
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
    if superblock.directory.is_none() {
        return Ok(());
    }
    let version = superblock.set_version();
    let mut word = [0; 8];
    read_exact_at(file, &mut word, REUSED_OFFSET)
        .map_err(|error| Error::io("read", path, error))?;
    if u64::from_le_bytes(word) <= version {
        return Ok(());
    }
    write_all_at(file, &version.to_le_bytes(), REUSED_OFFSET)
        .map_err(|error| Error::io("write", path, error))
}

/// Returns the pages that a superblock and segments of its directories name.
pub(crate) fn named<'a>(
    superblock: &'a Superblock,
    segments: impl IntoIterator<Item = &'a Segment, IntoIter: 'a>,
) -> impl Iterator<Item = Range<u64>> + 'a {
    let segments = segments.into_iter().map(Segment::extent);
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
