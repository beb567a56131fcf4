//! Writes through a map of the room that a file has reserved, which saves a system call each time.

use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::AddressSpace;
use super::disk::{allocate, keeps_it_whatever_is_copied};

/// Writes bytes into the room that a file has reserved.
///
/// What is stored through a map is in the page cache, like what is written: a kill loses none of it, and a sync of the
/// file makes it durable. But a store can't report failure: a disk that fails under it ends the process. A map is
/// therefore used only for room that certainly exists, on systems that keep what is reserved; elsewhere the file is
/// written to.
#[derive(Debug, Default)]
pub(super) struct Appending {
    /// The last of `maps`, for access without the lock; null while there is none.
    map: AtomicPtr<MmapRaw>,
    maps: Mutex<Maps>,
}

#[derive(Debug, Default)]
struct Maps {
    /// Each map is longer than the one before. All are kept, since another thread may be storing through them.
    #[expect(
        clippy::vec_box,
        reason = "they are pointed to, and stay where they are"
    )]
    all: Vec<Box<MmapRaw>>,
    /// The file can't be mapped, or its system doesn't guarantee reserved room.
    none: bool,
}

/// Minimum number of bytes to map at once, if the file has that many.
const LEAST: u64 = 64 << 20;

/// Where the address space is limited, a map takes at most what is left, divided by this.
const APPENDED_SHARE: u64 = 16;

/// Distance in bytes from the record being stored to the line being prefetched.
const AHEAD: usize = 256;

impl Appending {
    /// Records of this many bytes or more are written: the system takes longer over the first store into each page of a
    /// map than over a call that writes the page.
    pub(super) const LARGE: usize = 1024;

    /// Stores all of `bytes` at `offset`; returns `false` if the caller has to write them instead.
    pub(super) fn store(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let Some(end) = offset.checked_add(bytes.len() as u64) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let reaches = |map: &&MmapRaw| end <= map.len() as u64;
        let Some(map) = self.map().filter(reaches).or_else(|| self.grow(file, end)) else {
            return Ok(false);
        };
        // What lies behind the map is other memory of this process.
        assert!(reaches(&map), "{end} of {}", map.len());
        // SAFETY: `offset + bytes.len() <= map.len()`, and the offset fits a usize as the map's length does. No
        // reference to the mapped bytes exists: they are only ever reached through such pointers, of this handle's maps
        // or another's, by the one writer that `append_at` requires, and through system calls. `bytes` does not overlap
        // them. The file stays as long as it is: logs are never shortened.
        let to = unsafe {
            let to = map.as_mut_ptr().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            to
        };
        // Prefetch the place of the next records: an operation that waits for one store to reach its line waits for all
        // stores before it.
        super::prefetch(to.wrapping_add(AHEAD));
        Ok(true)
    }

    /// Returns the longest map.
    fn map(&self) -> Option<&MmapRaw> {
        // SAFETY: the pointer is null or points to one of `maps`. Their boxes live until `self` is dropped and are
        // never changed. The pointer was stored with release after the map was created.
        unsafe { self.map.load(Ordering::Acquire).as_ref() }
    }

    /// Maps everything reserved, if that reaches up to `end`.
    #[cold]
    fn grow(&self, file: &File, end: u64) -> Option<&MmapRaw> {
        let mut maps = super::lock(&self.maps);
        if maps.none {
            return None;
        }
        let Some(map) = Self::map_up_to(file, end) else {
            maps.none = true;
            return None;
        };
        // Another thread stores through the longest one that it has found.
        assert!(maps.all.iter().all(|held| held.len() <= map.len()));
        maps.all.push(Box::new(map));
        let last = maps.all.last_mut()?;
        self.map.store(&raw mut **last, Ordering::Release);
        self.map()
    }

    fn map_up_to(file: &File, end: u64) -> Option<MmapRaw> {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        // If the file is longer than any log, map only part of it: reserving its whole length would take room
        // permanently.
        let length = length.min(end.saturating_mul(2).max(LEAST));
        let bytes = usize::try_from(length).ok()?;
        // The room in the address space serves other maps better.
        if AddressSpace::of_process().is_some_and(|space| length > space.left() / APPENDED_SHARE) {
            return None;
        }
        // Reserve it again: a file that has only the length has holes.
        let is_reserved = length >= end
            && keeps_it_whatever_is_copied(file)
            && allocate(file, length).unwrap_or(false);
        let map = is_reserved.then(|| MmapOptions::new().len(bytes).map_raw(file))?;
        map.ok()
    }
}
