//! Read-only maps of a store file's pages.

use std::fs::File;
use std::io;

use memmap2::{MmapOptions, MmapRaw};

use super::sync::{AtomicU64, Ordering};

/// A read-only map of part of a file, seen as 64-bit words.
///
/// The file below may change while it is read: a checkpoint writes to it, in this process or
/// another. So no reference to plain bytes is ever made of it, and each word is loaded on its own,
/// atomically. What is read in one go may be half old and half new; who needs more than single
/// words checks a page's CRC on a copy.
///
/// What a map can't survive: somebody shortens the file below it. Then a read beyond the new end is
/// a bus error that ends the process. Everseen itself never shortens a store file, checks its
/// length before it maps, and can do no more than that.
#[derive(Debug)]
pub struct Map {
    raw: MmapRaw,
    words: usize,
}

/// Some words of a [`Map`] that lie together.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a, const N: usize>(&'a [AtomicU64; N]);

impl<const N: usize> Words<'_, N> {
    /// The word at `index`, modulo `N`, which must be a power of two.
    #[inline(always)]
    pub(crate) fn get(self, index: usize) -> u64 {
        const { assert!(N.is_power_of_two()) };
        u64::from_le(self.0[index & (N - 1)].load(Ordering::Relaxed))
    }
}

impl Map {
    /// Maps `length` bytes of `file` from `offset`, both multiples of 4096.
    pub(crate) fn new(file: &File, offset: u64, length: u64) -> io::Result<Self> {
        let end = offset.checked_add(length);
        if !offset.is_multiple_of(4096)
            || !length.is_multiple_of(4096)
            || end.is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if file.metadata()?.len() < offset + length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let raw = MmapOptions::new()
            .offset(offset)
            .len(bytes)
            .map_raw_read_only(file)?;
        // Default advice reads 128 KiB around each random fault. Advice is advice: a refusal
        // costs speed alone.
        #[cfg(unix)]
        let _ = raw.advise(memmap2::Advice::Random);
        Ok(Self {
            raw,
            words: bytes / 8,
        })
    }

    /// The number of words.
    pub(crate) fn len(&self) -> usize {
        self.words
    }

    /// All words. Each load is a relaxed atomic one, in the file's own little-endian order.
    #[inline]
    fn cells(&self) -> &[AtomicU64] {
        // SAFETY: the map covers `words * 8` readable bytes for as long as `self` lives, and its
        // start is page-aligned, so aligned for u64. Other processes may change the bytes at any
        // time; atomics allow for that. Loads alone are made through this slice (the mapping is
        // read-only, and relaxed loads of 8 bytes are allowed on read-only memory).
        unsafe { std::slice::from_raw_parts(self.raw.as_ptr().cast::<AtomicU64>(), self.words) }
    }

    /// The word at `index`, as a number.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        u64::from_le(self.cells()[index].load(Ordering::Relaxed))
    }

    /// The `N` words from `from` on.
    ///
    /// # Panics
    /// If they are not all in the map.
    #[inline]
    pub(crate) fn words<const N: usize>(&self, from: usize) -> Words<'_, N> {
        let (words, _) = self.cells()[from..].split_first_chunk().expect("a page");
        Words(words)
    }

    /// Asks the system to read some words from the disk, where they are not in memory, and does not
    /// wait for it. Advice: a refusal costs speed alone.
    pub(crate) fn ask_for(&self, from: usize, words: usize) {
        #[cfg(unix)]
        let _ = self
            .raw
            .advise_range(memmap2::Advice::WillNeed, from * 8, words * 8);
    }

    /// Unmaps some words, which will not be needed soon, until they are: then the system may take their memory
    /// when it is told that it may.
    pub(crate) fn leave(&self, from: usize, words: usize) {
        #[cfg(target_os = "linux")]
        if let Some(cells) = self.cells().get(from..from.saturating_add(words)) {
            let start = std::ptr::from_ref(cells).cast_mut().cast();
            let advice = rustix::mm::Advice::LinuxDontNeed;
            // SAFETY: the bytes are in the map, which is of a file, shared and read-only: what is taken out of
            // it comes back from the file, the same as before, whenever it is looked at.
            let _ = unsafe { rustix::mm::madvise(start, size_of_val(cells), advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (from, words);
    }

    /// Asks the processor to fetch the cache line of the word at `index`.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        super::prefetch(&self.cells()[index]);
    }
}
