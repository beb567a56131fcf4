//! Read-only maps of a store file's pages.

use std::fs::File;
use std::io;

use memmap2::{MmapOptions, MmapRaw};

use super::disk::holes_take_room;
use super::sync::{AtomicU64, Ordering};

/// Most words of [`Words`] that lie in a hole.
const BLANK: usize = 512;

/// What a hole reads as.
static ZEROS: [AtomicU64; BLANK] = [const { AtomicU64::new(0) }; BLANK];

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
///
/// On some systems a look at a hole through a map takes room for it, and where there is none, it ends
/// the process the same way. There the file is kept, and what may be a hole is read with a call, which
/// takes no room: `copy` first, and then `words_of_copy`.
#[derive(Debug)]
pub struct Map {
    raw: MmapRaw,
    words: usize,
    /// The file, and where in it the map begins, if holes are not to be looked at.
    holed: Option<(File, u64)>,
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
        let holed = match holes_take_room(file) {
            true => Some((file.try_clone()?, offset)),
            false => None,
        };
        Ok(Self {
            raw,
            words: bytes / 8,
            holed,
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

    /// Whether holes are not to be looked at.
    #[inline]
    pub(crate) fn spares_holes(&self) -> bool {
        self.holed.is_some()
    }

    /// Copies words from `from` on, wherever they are, with no room taken for holes.
    ///
    /// # Panics
    /// If they are not all in the map.
    pub(crate) fn copy(&self, from: usize, out: &mut [u8]) {
        let cells = &self.cells()[from..][..out.len() / 8];
        if let Some((file, offset)) = &self.holed
            && read_exact_at(file, out, offset + from as u64 * 8).is_ok()
        {
            return;
        }
        // What can't be read with a call is looked at, with what that may lead to.
        for (word, bytes) in cells.iter().zip(out.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }

    /// The `N` words from `from` on, at most 512, of which `copy` is a copy: a hole is not looked at
    /// where that takes room.
    ///
    /// # Panics
    /// If they are not all in the map.
    pub(crate) fn words_of_copy<const N: usize>(&self, from: usize, copy: &[u8]) -> Words<'_, N> {
        // What is not all zeros is no hole, and never becomes one.
        if self.spares_holes() && copy.iter().all(|byte| *byte == 0) {
            let (zeros, _) = ZEROS.split_first_chunk().expect("at most 512");
            return Words(zeros);
        }
        self.words(from)
    }

    /// Asks the system to read some words from the disk, where they are not in memory, and does not
    /// wait for it. Advice: a refusal costs speed alone.
    pub(crate) fn will_need(&self, from: usize, words: usize) {
        #[cfg(unix)]
        let _ = self
            .raw
            .advise_range(memmap2::Advice::WillNeed, from * 8, words * 8);
    }

    /// Unmaps some words, which will not be needed soon, until they are: then the system may take their memory
    /// when it is told that it may.
    pub(crate) fn drop_cached(&self, from: usize, words: usize) {
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

#[cfg(unix)]
fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

/// No system there is known to need it.
#[cfg(not(unix))]
fn read_exact_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
