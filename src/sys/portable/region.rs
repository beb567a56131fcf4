//! Zeroed memory of words that many threads, and many handles of one process, read while one writes.
//!
//! A file stands for a region that handles share: it has the region's name, and is empty. A table of this process leads
//! from the file to the memory, so nothing is mapped that some systems would then neither remove nor rename. As if the file
//! held it, the memory stays until the file has no name and no handle.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use memmap2::{MmapOptions, MmapRaw};

use crate::sys::sync::AtomicU64;
use crate::sys::{Folder, lock, state_of};

/// A region of 64-bit words, all initially zero.
#[derive(Debug)]
pub(crate) struct Region {
    raw: Arc<MmapRaw>,
    words: usize,
    /// The region was opened for reading only.
    read_only: bool,
    file: Option<File>,
}

/// A region that handles share.
struct Shared {
    raw: Arc<MmapRaw>,
    /// While it is open, the system gives no other file its number.
    file: File,
    handles: u64,
}

/// By the device and the number of the file.
type Regions = BTreeMap<(u64, u64), Shared>;

static SHARED: Mutex<Regions> = Mutex::new(BTreeMap::new());

fn key_of(file: &File) -> io::Result<(u64, u64)> {
    let id = state_of(file)?.id;
    Ok((id.device, id.inode))
}

/// Forgets the regions whose files have no name, and which no handle has.
fn forget_unnamed(regions: &mut Regions) {
    let is_named = |file: &File| state_of(file).is_ok_and(|state| state.links > 0);
    regions.retain(|_, shared| shared.handles > 0 || is_named(&shared.file));
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.file.is_none() {
            return;
        }
        let mut regions = lock(&SHARED);
        let of_this = |shared: &&mut Shared| Arc::ptr_eq(&shared.raw, &self.raw);
        if let Some(shared) = regions.values_mut().find(of_this) {
            shared.handles -= 1;
        }
        forget_unnamed(&mut regions);
    }
}

impl Region {
    /// Creates a region of one handle, of `words` words (at least one).
    pub(crate) fn private(words: u64) -> io::Result<Self> {
        let words = usize::try_from(words.max(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let bytes = words.checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?;
        let raw = MmapRaw::from(MmapOptions::new().len(bytes).map_anon()?);
        Ok(Self::of(Arc::new(raw), false, None))
    }

    /// Does the same. That what isn't written takes no memory is not promised here.
    pub(crate) fn sparse(words: u64) -> io::Result<Self> {
        Self::private(words)
    }

    /// Creates a region with a file that stands for it, for all handles of this process that open it.
    pub(crate) fn create(folder: &Folder, path: &Path, words: u64) -> io::Result<Self> {
        let file = folder.create(path)?;
        let made = Self::private(words);
        let made = made.and_then(|made| {
            let shared = Shared {
                raw: Arc::clone(&made.raw),
                file: file.try_clone()?,
                handles: 1,
            };
            Ok((key_of(&file)?, shared, made))
        });
        let (key, shared, mut made) = made.inspect_err(|_| {
            let _ = folder.remove(path);
        })?;
        let mut regions = lock(&SHARED);
        forget_unnamed(&mut regions);
        regions.insert(key, shared);
        made.file = Some(file);
        Ok(made)
    }

    /// Creates the same: this memory has no slow part.
    pub(crate) fn reserve(folder: &Folder, path: &Path, words: u64) -> io::Result<Self> {
        Self::create(folder, path, words)
    }

    /// Opens the region of a file that [`create`](Self::create) created in this process.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if another process created it.
    pub(crate) fn open(folder: &Folder, path: &Path, write: bool) -> io::Result<Self> {
        let file = folder.open_file(path, write)?;
        let key = key_of(&file)?;
        let mut regions = lock(&SHARED);
        let shared = regions.get_mut(&key).ok_or(io::ErrorKind::InvalidData)?;
        shared.handles += 1;
        Ok(Self::of(Arc::clone(&shared.raw), !write, Some(file)))
    }

    /// Opens the same for a caller that is going to use all of it.
    pub(crate) fn take_over(folder: &Folder, path: &Path) -> io::Result<Self> {
        Self::open(folder, path, true)
    }

    fn of(raw: Arc<MmapRaw>, read_only: bool, file: Option<File>) -> Self {
        crate::sys::simd::prefetch::detect();
        let words = raw.len() / 8;
        Self {
            raw,
            words,
            read_only,
            file,
        }
    }

    /// Does nothing: all of it is as the system gives it.
    pub(crate) fn fill(&self) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: the system has no such call.
    pub(crate) fn populate(&self) {}

    /// Does nothing.
    pub(crate) fn populate_once(&self) {}

    /// Returns the file that stands for the region; `None` for a region of one handle.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Returns whether stores into the region are forbidden.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns all words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the map covers at least `words * 8` readable and writable bytes for as long as `self` lives, which has a
        // share in it; it is page-aligned, and any bytes are a valid AtomicU64. All access goes through atomics, so other
        // threads may store at the same time.
        unsafe { std::slice::from_raw_parts(self.raw.as_ptr().cast::<AtomicU64>(), self.words) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_file_leads_to_its_region_whatever_its_name() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = &Folder::open(temporary.path()).unwrap();
        let [path, renamed] = ["one", "other"].map(|name| folder.path().join(name));
        let region = Region::create(folder, &path, 512).unwrap();
        region.words()[511].store(7, Ordering::Release);
        folder.rename(&path, &renamed).unwrap();
        let other = Region::create(folder, &path, 512).unwrap();
        assert_eq!(other.words()[511].load(Ordering::Acquire), 0);
        let again = Region::open(folder, &renamed, false).unwrap();
        assert_eq!(again.words()[511].load(Ordering::Acquire), 7);
        assert!(again.is_read_only() && !region.is_read_only());
        let strange = folder.path().join("strange");
        File::create_new(&strange).unwrap();
        let strange = Region::open(folder, &strange, true).unwrap_err();
        assert_eq!(strange.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_region_stays_while_it_has_a_name_or_a_handle() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = &Folder::open(temporary.path()).unwrap();
        let path = folder.path().join("region");
        let region = Region::create(folder, &path, 512).unwrap();
        let memory = Arc::downgrade(&region.raw);
        region.words()[0].store(7, Ordering::Release);
        drop(region);
        let region = Region::open(folder, &path, true).unwrap();
        assert_eq!(region.words()[0].load(Ordering::Acquire), 7);
        folder.remove(&path).unwrap();
        assert_eq!(region.words()[0].load(Ordering::Acquire), 7);
        drop(region);
        assert!(memory.upgrade().is_none());
    }

    #[test]
    fn a_size_that_no_machine_has_leaves_no_file() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = &Folder::open(temporary.path()).unwrap();
        let path = folder.path().join("large");
        assert!(Region::create(folder, &path, 1 << 60).is_err());
        assert!(!folder.exists(&path).unwrap());
    }
}
