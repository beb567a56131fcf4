//! What the superblocks of a store of fingerprints name, by FORMAT.md alone, and a disk that holds each write to such a
//! store against it.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use everseen::testing::Map;
use everseen::testing::storage::{Storage, StorageFile};

use super::forge::{SUPERBLOCKS, page_crc, u32_at, u64_at};

const PAGE: u64 = 4096;
/// The first page that is not the file's own.
const FIRST_PAGE: u64 = 32;
/// Where the word `reused` lies.
const REUSED: u64 = 4096;

/// Reads so many bytes from an offset; `None` if there are fewer.
pub type Read<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

/// Reads from bytes in memory.
pub fn from(file: &[u8]) -> impl Fn(u64, usize) -> Option<Vec<u8>> {
    |offset, length| {
        let first = usize::try_from(offset).ok()?;
        file.get(first..first.checked_add(length)?)
            .map(<[u8]>::to_vec)
    }
}

/// A segment, as its entry in the directory tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub first: u64,
    pub first_page: u64,
    pub pages: u64,
}

/// A superblock without fault, and what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub sequence: u64,
    pub generation: u64,
    /// That of all runs together.
    pub version: u64,
    /// Whether it names runs above the oldest one.
    pub has_runs: bool,
    /// How many.
    pub runs: usize,
    /// Up to where each of these has drained, the oldest first.
    pub cursors: Vec<u64>,
    /// Whether it was written between two steps of a checkpoint.
    pub is_partly_merged: bool,
    /// The directory's entry, and the run table behind it.
    pub entry: Vec<u8>,
    /// Those of the oldest run.
    pub segments: Vec<Segment>,
    /// Pages of segments, of both copies of each directory and of sections.
    pub pages: Vec<Range<u64>>,
}

/// Whether it is a store of fingerprints.
pub fn has_segments(read: Read<'_>) -> bool {
    read(0, 256).is_some_and(|header| header[..8] == *b"EVERSEEN" && header[44..46] == [4, 0])
}

/// Reads the superblock in one of the two places; `None` if there is a fault in it, or in both copies of its directory.
pub fn superblock(read: Read<'_>, place: usize) -> Option<Named> {
    let offset = SUPERBLOCKS[place] as u64;
    let head = read(offset, 320)?;
    let length = u32_at(&head, 12) as usize;
    if head[..8] != *b"EVERSUPR" || !(384..=57_344).contains(&length) {
        return None;
    }
    let bytes = read(offset, length)?;
    if crc32fast::hash(&bytes[12..]) != u32_at(&bytes, 8) {
        return None;
    }
    let mut entry = bytes[320..384].to_vec();
    let mut pages = Vec::new();
    let segments = take_directory(read, &entry, &mut pages)?;
    let mut version = u64_at(&entry, 48);
    let mut cursors = Vec::new();
    let table = run_table(&bytes);
    if let Some(table) = table {
        for run in table[16..].chunks_exact(104) {
            take_directory(read, run, &mut pages)?;
            cursors.push(u64_at(run, 72));
        }
        version = u64_at(table, 8);
        entry.extend_from_slice(table);
    }
    for number in 0..u32_at(&bytes, 316) as usize {
        let section = &bytes[384 + 32 * number..];
        let (first, hashes) = (u64_at(section, 8), u64_at(section, 16));
        if hashes > 0 {
            pages.push(first..first + (8 + 8 * hashes).div_ceil(PAGE));
        }
    }
    pages.retain(|range| !range.is_empty());
    Some(Named {
        sequence: u64_at(&bytes, 16),
        generation: u64_at(&bytes, 24),
        version,
        has_runs: table.is_some(),
        runs: cursors.len(),
        cursors,
        is_partly_merged: u32_at(&bytes, 304) & 2 != 0,
        entry,
        segments,
        pages,
    })
}

/// Returns the bytes of the run table, if a superblock has one.
fn run_table(bytes: &[u8]) -> Option<&[u8]> {
    let flags = u32_at(bytes, 304);
    let mut at = 384 + 32 * u32_at(bytes, 316) as usize;
    for _ in 0..u32_at(bytes, 312) {
        let lengths = u32_at(bytes, at + 8);
        let length = (lengths & 0xFFFF) + (lengths >> 16);
        at += 16 + (length as usize).next_multiple_of(8);
    }
    // What stands before the table: a moment, a clock, an earliest step.
    at += 8 * (flags & (4 | 16 | 32)).count_ones() as usize;
    (flags & 8 != 0).then(|| &bytes[at..at + 16 + 104 * u32_at(bytes, at) as usize])
}

/// Reads the directory whose entry or run begins so, and adds its pages and those of its segments.
fn take_directory(
    read: Read<'_>,
    entry: &[u8],
    pages: &mut Vec<Range<u64>>,
) -> Option<Vec<Segment>> {
    let count = u64_at(entry, 16);
    let copies = [u64_at(entry, 0), u64_at(entry, 8)];
    let copy = |first| directory(read, first, count);
    let segments = copies.into_iter().find_map(copy)?;
    pages.extend(segments.iter().map(|one| {
        let pages = one.pages + one.pages.div_ceil(510);
        one.first_page..one.first_page + pages
    }));
    pages.extend(copies.map(|first| first..first + count.div_ceil(102)));
    Some(segments)
}

/// Reads one copy of a directory; `None` if it is damaged.
fn directory(read: Read<'_>, first: u64, count: u64) -> Option<Vec<Segment>> {
    let header = read(0, 256)?;
    let mut segments = Vec::new();
    for page in first..first + count.div_ceil(102) {
        let bytes = read(page * PAGE, PAGE as usize)?;
        if page_crc(&header, page, &bytes) != u32_at(&bytes, 0) {
            return None;
        }
        let entries = u32_at(&bytes, 4) as usize;
        segments.extend(bytes[16..].chunks(40).take(entries).map(|entry| Segment {
            first: u64_at(entry, 0),
            first_page: u64_at(entry, 8),
            pages: u32_at(entry, 32).into(),
        }));
    }
    (segments.len() as u64 == count).then_some(segments)
}

/// Reads the newest superblock.
pub fn newest(read: Read<'_>) -> Option<Named> {
    let both = [0, 1]
        .into_iter()
        .filter_map(|place| superblock(read, place));
    both.max_by_key(|named| named.sequence)
}

/// Returns how many segments a store file has.
pub fn count(path: &Path) -> usize {
    let file = std::fs::read(path).unwrap();
    newest(&from(&file)).map_or(0, |named| named.segments.len())
}

/// What a guard has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Writes to pages of stores of fingerprints.
    pub writes: AtomicU64,
    /// The most segments that a directory had when one of them was made.
    pub segments: AtomicU64,
    /// Directories with more segments than the one before, and with fewer: some were split, some merged.
    pub grown: AtomicU64,
    pub shrunk: AtomicU64,
    /// Directories of a generation that had one: segments were moved together at closing.
    pub moved: AtomicU64,
    /// Sets of three runs and more.
    pub runs: AtomicU64,
    /// Cursors within the space: runs that have drained in part.
    pub slices: AtomicU64,
}

impl Seen {
    /// Ends the test unless everything was seen that a store with several segments goes through.
    pub fn expect_all(&self) {
        let Self {
            writes,
            segments,
            grown,
            shrunk,
            moved,
            ..
        } = self;
        println!("{self:?}");
        assert!(writes.load(Ordering::Relaxed) > 0);
        assert!(segments.load(Ordering::Relaxed) > 2, "several segments");
        assert!(
            grown.load(Ordering::Relaxed) > 0,
            "more segments than before"
        );
        assert!(
            shrunk.load(Ordering::Relaxed) > 0,
            "fewer segments than before"
        );
        assert!(moved.load(Ordering::Relaxed) > 0, "segments moved together");
    }

    /// Ends the test unless some stores had three runs, and some a run that had drained in part.
    pub fn expect_slices(&self) {
        println!("{self:?}");
        assert!(self.runs.load(Ordering::Relaxed) > 0, "three runs");
        assert!(self.slices.load(Ordering::Relaxed) > 0, "slices");
    }
}

/// A disk that ends with a panic when a write to a store of fingerprints breaks a rule of FORMAT.md, "Room and reuse".
/// A disk under it that fails is not held against the store.
#[derive(Debug)]
pub struct Guard {
    inner: Arc<dyn Storage>,
    seen: Arc<Seen>,
}

impl Guard {
    pub fn new(inner: Arc<dyn Storage>) -> Arc<Self> {
        Self::telling(inner, &Arc::default())
    }

    pub fn telling(inner: Arc<dyn Storage>, seen: &Arc<Seen>) -> Arc<Self> {
        let seen = Arc::clone(seen);
        Arc::new(Self { inner, seen })
    }

    fn file(&self, inner: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        let seen = Arc::clone(&self.seen);
        Arc::new(GuardedFile {
            inner,
            seen,
            last: Mutex::default(),
        })
    }
}

impl Storage for Guard {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.file(self.inner.create_new(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.file(self.inner.open(path, write)?))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.sync_folder(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
}

#[derive(Debug)]
struct GuardedFile {
    inner: Arc<dyn StorageFile>,
    seen: Arc<Seen>,
    last: Mutex<Option<Named>>,
}

impl GuardedFile {
    fn read(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match self.inner.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) | Err(_) => return None,
                Ok(count) => done += count,
            }
        }
        Some(bytes)
    }

    /// Takes note of what a superblock names that has just been written.
    fn note(&self) {
        let read = |offset, length| self.read(offset, length);
        let Some(new) = has_segments(&read).then(|| newest(&read)).flatten() else {
            return;
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = &*last
            && old.version < new.version
        {
            let generation = |named: &Named| u64_at(&named.entry, 56);
            let (before, after) = (old.segments.len(), new.segments.len());
            let drains = new.cursors.iter().any(|begin| *begin > 0);
            for (counter, counts) in [
                (&self.seen.runs, new.runs > 1),
                (&self.seen.slices, drains && !new.is_partly_merged),
                (&self.seen.grown, after > before && before > 0),
                (&self.seen.shrunk, after < before),
                (&self.seen.moved, generation(old) == generation(&new)),
            ] {
                counter.fetch_add(u64::from(counts), Ordering::Relaxed);
            }
        }
        *last = Some(new);
    }

    /// Holds a change of pages against what is named.
    fn check(&self, pages: &Range<u64>) {
        let read = |offset, length| self.read(offset, length);
        if pages.end <= FIRST_PAGE || !has_segments(&read) {
            return;
        }
        let both = [0, 1].map(|place| superblock(&read, place));
        let Some(reused) = read(REUSED, 8) else {
            return;
        };
        for named in both.iter().flatten() {
            let hit = named
                .pages
                .iter()
                .find(|range| range.start < pages.end && pages.start < range.end);
            let sequence = named.sequence;
            assert_eq!(
                hit, None,
                "{pages:?} of superblock {sequence} are written to"
            );
        }
        let entries = both
            .each_ref()
            .map(|named| named.as_ref().map(|one| &one.entry));
        // A disk that fails, or a process that is dead, is no reason to find fault.
        if read(0, 1).is_none() {
            return;
        }
        assert!(
            entries[0].is_some() && entries[0] == entries[1],
            "{pages:?} are written to while the superblocks name two directories: {both:?}"
        );
        let version = both[0].as_ref().map(|named| named.version);
        assert_eq!(Some(u64_at(&reused, 0)), version, "`reused`");
        self.seen.writes.fetch_add(1, Ordering::Relaxed);
        let segments = both[0].as_ref().map_or(0, |named| named.segments.len());
        let segments = segments as u64;
        self.seen.segments.fetch_max(segments, Ordering::Relaxed);
    }
}

impl StorageFile for GuardedFile {
    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.check(&(offset / PAGE..(offset + bytes.len() as u64).div_ceil(PAGE)));
        let written = self.inner.write_at(bytes, offset)?;
        if SUPERBLOCKS.contains(&(offset as usize)) {
            self.note();
        }
        Ok(written)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let read = |offset, length| self.read(offset, length);
        if has_segments(&read) && length.is_multiple_of(PAGE) {
            for named in [0, 1]
                .into_iter()
                .filter_map(|place| superblock(&read, place))
            {
                let end = named.pages.iter().map(|range| range.end).max().unwrap_or(0);
                assert!(end * PAGE <= length, "page {end} is cut off at {length}");
            }
        }
        self.inner.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.inner.allocate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.inner.map(offset, length)
    }
}
