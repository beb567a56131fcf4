//! Read-only maps of a store file's pages.

use std::fs::File;
use std::io;

use memmap2::{MmapOptions, MmapRaw};

use super::disk::holes_take_room;
use super::simd::lanes::Lanes;
use super::sync::{AtomicU64, Ordering};

/// Maximum number of words of [`Words`] in a hole.
const BLANK: usize = 512;

/// The contents of a hole.
static ZEROS: [AtomicU64; BLANK] = [const { AtomicU64::new(0) }; BLANK];

/// A read-only map of part of a file, seen as 64-bit words.
///
/// The file below it may change while it is read: a checkpoint writes to the file, in this process or another. No
/// reference to plain bytes is therefore ever created, and each word is loaded on its own, atomically. Several words
/// may be half old and half new; a reader that needs more than single words checks a page's CRC on a copy.
///
/// A map does not survive the file below it being shortened: a read beyond the new end is a bus error that ends the
/// process. Everseen shortens a store file only while it holds a lock that excludes all views of it, and checks its
/// length before it maps; it can do no more than that.
///
/// On some systems, reading a hole through a map takes room for it, and where no room is left, it ends the process the
/// same way. On those systems the map keeps the file and reads what may be a hole with a call, which takes no room:
/// `copy` first, then `words_of_copy`.
#[derive(Debug)]
pub struct Map {
    raw: MmapRaw,
    words: usize,
    /// The file and the map's offset in it, if holes must not be read through the map.
    holed: Option<(File, u64)>,
}

/// Some adjacent words of a [`Map`].
#[derive(Clone, Copy)]
pub(crate) struct Words<'a, const N: usize>(&'a [AtomicU64; N]);

impl<const N: usize> Words<'_, N> {
    /// Returns the word at `index`, modulo `N`, which must be a power of two.
    #[inline(always)]
    pub(crate) fn get(self, index: usize) -> u64 {
        const { assert!(N.is_power_of_two()) };
        u64::from_le(self.0[index & (N - 1)].load(Ordering::Relaxed))
    }
}

/// All words of a [`Map`], in parts of `N`.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a, const N: usize>(&'a [[AtomicU64; N]]);

impl<const N: usize> Parts<'_, N> {
    /// Returns a word of a part for each lane, the one with an index modulo `N`. The place of a
    /// part whose bytes have no number below 2^64 wraps.
    ///
    /// # Panics
    /// Panics if there is no such part.
    #[inline(always)]
    pub(crate) fn gather<V: Lanes>(self, parts: V, indexes: V) -> V {
        V::from_le(V::gather(
            self.0.as_flattened(),
            Self::place(parts, indexes),
        ))
    }

    /// Returns the eight bytes from `byte` of a part on for each lane, the last eight of the part for any greater.
    ///
    /// # Panics
    /// Panics if there is no such part.
    #[inline(always)]
    pub(crate) fn gather_bytes<V: Lanes>(self, parts: V, bytes: V) -> V {
        let last = V::of(N as u64 * 8 - 8);
        let begin = parts.shl(V::of(N.ilog2() as u64 + 3));
        V::gather_bytes(self.0.as_flattened(), begin + bytes.min(last))
    }

    /// Prefetches the processor's cache line of a word for each lane, as [`gather`](Self::gather) finds it. There may be no
    /// such part.
    #[inline(always)]
    pub(crate) fn prefetch<V: Lanes>(self, parts: V, indexes: V) {
        super::prefetch_all(self.0.as_flattened(), Self::place(parts, indexes));
    }

    #[inline(always)]
    fn place<V: Lanes>(parts: V, indexes: V) -> V {
        const { assert!(N.is_power_of_two()) };
        parts.shl(V::of(N.ilog2().into())) + (indexes & V::of(N as u64 - 1))
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
        // What `cells` hands out lies in the map.
        assert_eq!(raw.len(), bytes);
        // Default advice reads 128 KiB around each random fault, large pages (`MADV_HUGEPAGE`) 2 MiB: too much where memory
        // is short. A refusal of the advice costs only speed.
        #[cfg(unix)]
        let _ = raw.advise(memmap2::Advice::Random);
        super::simd::prefetch::detect();
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

    /// Returns the number of words.
    pub(crate) fn len(&self) -> usize {
        self.words
    }

    /// Returns all words. Each load is a relaxed atomic one, in the file's own little-endian order.
    #[inline]
    fn cells(&self) -> &[AtomicU64] {
        // SAFETY: the map covers `words * 8` readable bytes for as long as `self` lives, and its start is page-aligned,
        // so aligned for u64. Other processes may change the bytes at any time; atomics allow for that. Only loads are
        // made through this slice (the mapping is read-only, and relaxed loads of 8 bytes are allowed on read-only
        // memory).
        unsafe { std::slice::from_raw_parts(self.raw.as_ptr().cast::<AtomicU64>(), self.words) }
    }

    /// Returns the word at `index`, as a number.
    ///
    /// # Panics
    /// Panics if `index` is out of range.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        u64::from_le(self.cells()[index].load(Ordering::Relaxed))
    }

    /// Returns the `N` words from `from` on.
    ///
    /// # Panics
    /// Panics if they are not all in the map.
    #[inline]
    pub(crate) fn words<const N: usize>(&self, from: usize) -> Words<'_, N> {
        let (words, _) = self.cells()[from..].split_first_chunk().expect("a page");
        Words(words)
    }

    /// Returns all words in parts of `N`, except for the last ones that make no whole part.
    #[inline]
    pub(crate) fn parts<const N: usize>(&self) -> Parts<'_, N> {
        Parts(self.cells().as_chunks().0)
    }

    /// Returns whether holes must not be read through the map.
    #[inline]
    pub(crate) fn spares_holes(&self) -> bool {
        self.holed.is_some()
    }

    /// Copies words from `from` on, wherever they are, without taking room for holes.
    ///
    /// # Panics
    /// Panics if they are not all in the map.
    pub(crate) fn copy(&self, from: usize, out: &mut [u8]) {
        assert!(out.len().is_multiple_of(8), "whole words");
        let cells = &self.cells()[from..][..out.len() / 8];
        if let Some((file, offset)) = &self.holed
            && read_exact_at(file, out, offset + from as u64 * 8).is_ok()
        {
            return;
        }
        // Read the words through the map if the call fails, with the consequences that may have.
        for (word, bytes) in cells.iter().zip(out.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }

    /// Returns the `N` words from `from` on, at most 512, given a `copy` of them: a hole is not read through the map
    /// where that takes room.
    ///
    /// # Panics
    /// Panics if they are not all in the map.
    pub(crate) fn words_of_copy<const N: usize>(&self, from: usize, copy: &[u8]) -> Words<'_, N> {
        const { assert!(N <= BLANK) };
        debug_assert_eq!(copy.len(), N * 8, "of the very words");
        // Anything but zeros is not a hole and never becomes one.
        if self.spares_holes() && copy.iter().all(|byte| *byte == 0) {
            let (zeros, _) = ZEROS.split_first_chunk().expect("at most 512");
            return Words(zeros);
        }
        self.words(from)
    }

    /// Advises the system to read some words from the disk if they are not in memory, without waiting for it. (To map them
    /// as well, `MADV_POPULATE_READ`, waits for these reads and was a third slower.) A refusal of the advice costs only
    /// speed.
    pub(crate) fn will_need(&self, from: usize, words: usize) {
        #[cfg(unix)]
        let _ = self
            .raw
            .advise_range(memmap2::Advice::WillNeed, from * 8, words * 8);
        #[cfg(not(unix))]
        let _ = (from, words);
    }

    /// Unmaps some words that will not be needed soon, until they are read again: the system may then take their memory
    /// when it is advised so. Both together take a sixth of the time of `MADV_PAGEOUT`.
    pub(crate) fn drop_cached(&self, from: usize, words: usize) {
        #[cfg(not(everseen_portable))]
        if let Some(cells) = self.cells().get(from..from.saturating_add(words)) {
            let start = std::ptr::from_ref(cells).cast_mut().cast();
            let advice = rustix::mm::Advice::LinuxDontNeed;
            // SAFETY: the bytes are in the map, which is of a file, shared and read-only: a page that is dropped comes
            // back from the file, unchanged, on its next access.
            let _ = unsafe { rustix::mm::madvise(start, size_of_val(cells), advice) };
        }
        #[cfg(everseen_portable)]
        let _ = (from, words);
    }

    /// Prefetches the processor's cache line of the word at `index`.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        super::prefetch(&self.cells()[index]);
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

/// Always fails: no system here is known to need this.
#[cfg(not(unix))]
fn read_exact_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::super::simd::dispatch::{Baseline, Cpu, Work, run_wide};
    use super::*;

    /// What is gathered of a map of two parts, of bytes that count on.
    struct Gathered<'a>(&'a Map);

    impl Work for Gathered<'_> {
        type Output = Vec<u64>;

        fn run<C: Cpu>(self, _cpu: C) -> Vec<u64> {
            let parts = self.0.parts::<512>();
            let of = C::Lanes::of;
            let bytes = |part, byte| parts.gather_bytes(of(part), of(byte)).lane(0);
            let word = |part, index| parts.gather(of(part), of(index)).lane(0);
            let places = [0, 1, 13, 4087, 4088, 4089, 1 << 20, u64::MAX];
            let all = places
                .into_iter()
                .flat_map(|byte| [bytes(0, byte), bytes(1, byte)]);
            all.chain([word(0, 511), word(1, 512), word(1, 513)])
                .collect()
        }
    }

    /// Bytes that are read while they are written again may lead anywhere.
    #[test]
    fn nothing_is_gathered_from_beyond_a_part() {
        let file = tempfile::tempfile().unwrap();
        let numbers: Vec<u8> = (0..8192_u32).map(|byte| ((byte * 7) >> 3) as u8).collect();
        io::Write::write_all(&mut &file, &numbers).unwrap();
        let map = Map::new(&file, 0, 8192).unwrap();
        let number =
            |begin: usize| u64::from_le_bytes(numbers[begin..begin + 8].try_into().unwrap());
        let begins = [0, 1, 13, 4087, 4088, 4088, 4088, 4088];
        let bytes = begins
            .into_iter()
            .flat_map(|begin| [number(begin), number(4096 + begin)]);
        let words = [4088, 4096, 4104].map(number);
        let expected = Vec::from_iter(bytes.chain(words));
        assert_eq!(Gathered(&map).run(Baseline), expected);
        assert_eq!(run_wide(Gathered(&map)), expected);
    }
}
