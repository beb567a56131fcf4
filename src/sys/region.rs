//! Zeroed memory of words that many threads, and many processes, read while one writes. Where only the handles of one
//! process share it, `portable/region.rs` takes its place.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw};

use super::Folder;
use super::sync::AtomicU64;

/// A region of 64-bit words, all initially zero.
#[derive(Debug)]
pub(crate) struct Region {
    raw: MmapRaw,
    words: usize,
    /// The region is mapped read-only: a store into it would be a fault.
    read_only: bool,
    file: Option<File>,
    /// All pages are in memory as far as this process knows, or come fast enough one by one.
    is_populated: AtomicBool,
}

impl Region {
    /// Creates a region of this process, of `words` words (at least one).
    pub(crate) fn private(words: u64) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        let raw = MmapRaw::from(MmapOptions::new().len(bytes).map_anon()?);
        // The region is accessed at random: each access would be a fault, and take an entry in the processor's tables.
        if bytes >= HUGE_PAGE {
            let _ = raw.advise(Advice::HugePage);
        }
        Ok(Self::of(raw, bytes, false))
    }

    /// Creates one of which a small part is used, here and there: a large page would be taken for each word.
    pub(crate) fn sparse(words: u64) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        let raw = MmapRaw::from(MmapOptions::new().len(bytes).map_anon()?);
        let _ = raw.advise(Advice::NoHugePage);
        Ok(Self::of(raw, bytes, false))
    }

    /// Creates a region in a new file, for all processes that open it. Writes the whole file first, so that no later
    /// access fails for lack of room or has to wait for it.
    pub(crate) fn create(folder: &Folder, path: &Path, words: u64) -> io::Result<Self> {
        Self::make(folder, path, words, true)
    }

    /// Creates the same, without the slow part where the file's system keeps what is reserved. The first use of a page
    /// then takes some microseconds, unless the caller calls [`fill`](Self::fill) or [`populate_once`](Self::populate_once)
    /// before.
    pub(crate) fn reserve(folder: &Folder, path: &Path, words: u64) -> io::Result<Self> {
        Self::make(folder, path, words, false)
    }

    fn make(folder: &Folder, path: &Path, words: u64, fill: bool) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        let file = folder.create(path)?;
        // Reserve first, so that a size that no disk holds is refused before it fills one.
        let reserved = super::disk::allocate(&file, bytes as u64);
        let filled = reserved.and_then(|_| {
            let fill = fill || !super::disk::keeps_what_is_reserved(&file);
            if fill {
                write_zeros(&file, 0, bytes)?;
            }
            let raw = MmapOptions::new().len(bytes).map_raw(&file)?;
            advise(&raw, fill);
            Ok((raw, fill))
        });
        match filled {
            Ok((raw, is_filled)) => Ok(Self::of(raw, bytes, false)
                .with_file(file)
                .populated(is_filled)),
            Err(error) => {
                let _ = folder.remove(path);
                Err(error)
            }
        }
    }

    /// Writes zeros to the region's file, except for its first page, which erases all else that it holds. Afterwards its
    /// pages are in memory, in pieces as large as the system has. Does nothing if all pages are in memory already.
    pub(crate) fn fill(&self) -> io::Result<()> {
        const FIRST_PAGE: usize = 4096;
        let bytes = self.words * 8;
        if let Some(file) = &self.file
            && bytes > FIRST_PAGE
            && !self.is_populated.load(Ordering::Relaxed)
        {
            write_zeros(file, FIRST_PAGE, bytes)?;
            advise(&self.raw, true);
            self.is_populated.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Brings the whole region into memory at once, so that no first use of a page has to wait. What it holds stays.
    pub(crate) fn populate(&self) {
        have_in_memory(&self.raw);
        self.is_populated.store(true, Ordering::Relaxed);
    }

    /// Does the same, unless it was done before, or the pages of the region come fast enough.
    #[cold]
    pub(crate) fn populate_once(&self) {
        if !self.is_populated.load(Ordering::Relaxed) {
            self.populate();
        }
    }

    /// Opens the region in a file that [`create`](Self::create) created.
    pub(crate) fn open(folder: &Folder, path: &Path, write: bool) -> io::Result<Self> {
        let file = folder.open_file(path, write)?;
        let length = file.metadata()?.len();
        if length == 0 || length % 8 != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let bytes = bytes_of(length / 8)?;
        let mut options = MmapOptions::new();
        options.len(bytes);
        let raw = if write {
            options.map_raw(&file)?
        } else {
            options.map_raw_read_only(&file)?
        };
        advise(&raw, false);
        Ok(Self::of(raw, bytes, !write)
            .with_file(file)
            .populated(false))
    }

    /// Opens the same for a caller that is going to use all of it.
    pub(crate) fn take_over(folder: &Folder, path: &Path) -> io::Result<Self> {
        let region = Self::open(folder, path, true)?;
        region.populate();
        Ok(region)
    }

    fn of(raw: MmapRaw, bytes: usize, read_only: bool) -> Self {
        // What `words` hands out lies in the map.
        assert!(bytes.is_multiple_of(8) && bytes <= raw.len(), "{bytes}");
        super::simd::prefetch::detect();
        Self {
            raw,
            words: bytes / 8,
            read_only,
            file: None,
            is_populated: AtomicBool::new(true),
        }
    }

    fn populated(self, is_populated: bool) -> Self {
        Self {
            is_populated: AtomicBool::new(is_populated),
            ..self
        }
    }

    fn with_file(self, file: File) -> Self {
        Self {
            file: Some(file),
            ..self
        }
    }

    /// Returns the region's file, which was opened for this region alone; `None` for a region of this process.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Returns whether stores into the region are forbidden.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns all words. A caller that stores into them has checked that the region is not read-only.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the map covers `words * 8` readable bytes for as long as `self` lives; it is
        // page-aligned, and any bytes are a valid AtomicU64. All access goes through atomics, so
        // other threads and processes may store at the same time. In a read-only region a load is
        // allowed (relaxed or acquire, 8 bytes); a store would be a fault that ends the process,
        // not undefined behaviour, and is kept out by `is_read_only`.
        unsafe { std::slice::from_raw_parts(self.raw.as_ptr().cast::<AtomicU64>(), self.words) }
    }
}

fn bytes_of(words: u64) -> io::Result<usize> {
    let words = usize::try_from(words.max(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let bytes = words.checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(bytes)
}

/// Keeps a fault from reading the surroundings, which took 7 ms for the first one of a reserved file; with `populate`, also
/// takes all faults now.
fn advise(raw: &MmapRaw, populate: bool) {
    // If the system refuses, access is only as slow as it was.
    let _ = raw.advise(Advice::Random);
    if populate {
        have_in_memory(raw);
    }
}

/// Takes the first-use faults of all pages now.
fn have_in_memory(raw: &MmapRaw) {
    let _ = raw.advise(Advice::PopulateWrite);
}

/// Bytes that the system maps with one entry of its tables if the file's cache holds them in one piece; ext4 and others
/// ensure that if they are written in one piece.
const HUGE_PAGE: usize = 2 << 20;

fn write_zeros(file: &File, from: usize, to: usize) -> io::Result<()> {
    assert!(from <= to, "{from}..{to}");
    let zeros = vec![0; HUGE_PAGE.min(to - from)];
    let mut file = file;
    io::Seek::seek(&mut file, io::SeekFrom::Start(from as u64))?;
    let mut at = from;
    while at < to {
        let border = (at + 1).next_multiple_of(HUGE_PAGE);
        let part = border.min(to) - at;
        io::Write::write_all(&mut file, &zeros[..part])?;
        at += part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: u64 = 1 << 18;

    /// A reserved region with some words that are not 0, in all of its parts, and those.
    fn region(folder: &Folder, name: &str) -> (Region, Vec<usize>) {
        let path = folder.path().join(name);
        let region = Region::reserve(folder, &path, WORDS).unwrap();
        let kept: Vec<usize> = (0..WORDS as usize).step_by(1001).collect();
        for at in &kept {
            region.words()[*at].store(*at as u64 + 1, Ordering::Release);
        }
        (region, kept)
    }

    fn expect(region: &Region, kept: &[usize]) {
        let of = |at: usize| region.words()[at].load(Ordering::Acquire);
        assert!(kept.iter().all(|at| of(*at) == *at as u64 + 1));
        let there = (0..WORDS as usize).filter(|at| of(*at) != 0);
        assert_eq!(there.count(), kept.len());
    }

    #[test]
    fn what_a_region_holds_stays_when_all_of_it_comes_into_memory() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = &Folder::open(temporary.path()).unwrap();
        let (region, kept) = region(folder, "region");
        let other = Region::open(folder, &folder.path().join("region"), true).unwrap();
        for region in [&region, &other] {
            region.populate_once();
            region.populate();
            // Nothing is left to fill.
            region.fill().unwrap();
            expect(region, &kept);
        }
    }

    /// Only a region without contents may be filled: what a reserved one holds is erased.
    #[test]
    fn to_fill_a_region_erases_all_but_its_first_page() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = &Folder::open(temporary.path()).unwrap();
        let (region, mut kept) = region(folder, "region");
        let is_whole = region.is_populated.load(Ordering::Relaxed);
        region.fill().unwrap();
        if !is_whole {
            kept.retain(|at| *at < 512);
        }
        expect(&region, &kept);
    }

    /// Where the system gives large pages to whoever asks for them, or to all.
    #[cfg(not(everseen_portable))]
    #[test]
    fn a_sparse_region_takes_no_more_than_is_used() {
        const PLACES: u64 = 64;
        let region = Region::sparse(PLACES * WORDS).unwrap();
        let words = region.words();
        for place in 0..PLACES {
            words[(place * WORDS) as usize].store(1, Ordering::Relaxed);
        }
        let start = format!("{:x}-", words.as_ptr().addr());
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let own = maps.split_once(&start).expect("it is mapped").1;
        let resident = own.lines().find_map(|line| line.strip_prefix("Rss:"));
        let kibibytes = resident.unwrap().trim().trim_end_matches(" kB");
        let kibibytes: u64 = kibibytes.parse().unwrap();
        assert!((4 * PLACES..1024).contains(&kibibytes), "{kibibytes} KiB");
    }
}
