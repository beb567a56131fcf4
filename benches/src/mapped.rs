//! The filter that Everseen is held against: bits in a file, set through a writable shared map. The
//! only place in the measurements with `unsafe`.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw};

use crate::keys::hash;

/// Bytes of a page; all bits of a key lie in one, so that a key costs one page as in Everseen.
const PAGE: u64 = 4096;

/// A filter in a file.
#[derive(Debug)]
pub struct MappedFilter {
    map: MmapRaw,
    pages: u64,
    probes: u32,
}

impl MappedFilter {
    /// Maps a file, all of which is the filter's bits. With `random` the system is advised not to
    /// read around what is asked for.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path, probes: u32, random: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let pages = file.metadata()?.len() / PAGE;
        let bytes = usize::try_from(pages * PAGE).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        if random {
            map.advise(Advice::Random)?;
        }
        Ok(Self { map, pages, probes })
    }

    /// Sets the key's bits, and answers whether one of them was not set.
    pub fn insert(&self, key: u64) -> bool {
        let mut new = false;
        for (cell, bit) in self.bits(key) {
            if cell.load(Ordering::Relaxed) & bit == 0 {
                cell.fetch_or(bit, Ordering::Relaxed);
                new = true;
            }
        }
        new
    }

    /// Whether all bits of the key are set.
    pub fn contains(&self, key: u64) -> bool {
        self.bits(key)
            .all(|(cell, bit)| cell.load(Ordering::Relaxed) & bit != 0)
    }

    /// Has the system write all of it back, and waits for it.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> io::Result<()> {
        self.map.flush()
    }

    /// The bits of a key: the word of each, and its place therein.
    fn bits(&self, key: u64) -> impl Iterator<Item = (&AtomicU64, u64)> {
        const WORDS: u64 = PAGE / 8;
        let page = ((u128::from(key) * u128::from(self.pages)) >> 64) as u64;
        let first = (page * WORDS) as usize;
        let cells = &self.cells()[first..first + WORDS as usize];
        (0..u64::from(self.probes)).map(move |probe| {
            let draw = hash(key ^ hash(probe));
            (&cells[(draw % WORDS) as usize], 1 << (draw >> 58))
        })
    }

    fn cells(&self) -> &[AtomicU64] {
        let words = (self.pages * (PAGE / 8)) as usize;
        // SAFETY: the map covers `words * 8` readable and writable bytes for as long as `self`
        // lives, it is page-aligned, and any bytes are a valid AtomicU64. All access goes through
        // atomics. The file lies in a folder of the measurement's own, where nobody shortens it.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bits");
        std::fs::write(&path, vec![0; 64 * 4096]).unwrap();
        let filter = MappedFilter::open(&path, 20, true).unwrap();
        let new = (0..10_000).filter(|key| filter.insert(hash(*key))).count();
        assert!(new > 9_990, "{new}");
        filter.sync().unwrap();
        drop(filter);
        let filter = MappedFilter::open(&path, 20, false).unwrap();
        assert!((0..10_000).all(|key| filter.contains(hash(key))));
        let wrong = (10_000..20_000).filter(|key| filter.contains(hash(*key)));
        assert!(wrong.count() < 10);
    }
}
