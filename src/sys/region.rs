//! Zeroed memory of words that many threads read while one writes.

use std::io;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// A region of zeroed 64-bit words, private to this process.
///
/// The write buffer lives in one; another constructor can back it with a shared file.
#[derive(Debug)]
pub(crate) struct Region {
    raw: MmapRaw,
    words: usize,
}

impl Region {
    /// A private region of `words` zeroed words (at least one).
    pub(crate) fn private(words: u64) -> io::Result<Self> {
        let words = usize::try_from(words.max(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let bytes = words.checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?;
        let raw = MmapRaw::from(MmapOptions::new().len(bytes).map_anon()?);
        Ok(Self { raw, words })
    }

    /// All words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the map covers `words * 8` readable and writable bytes for as long as `self`
        // lives; it is page-aligned, and zero bytes are a valid AtomicU64. All access goes through
        // atomics.
        unsafe { std::slice::from_raw_parts(self.raw.as_ptr().cast::<AtomicU64>(), self.words) }
    }
}
