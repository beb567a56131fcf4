//! Writing through a map of what a file has reserved, which spares a call to the system each time.

use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::disk::{allocate, keeps_it_whatever_is_copied};

/// How bytes get into the room that a file has reserved.
///
/// What was stored through a map is in the page cache, as what was written is: a kill loses none of
/// it, and a sync of the file makes it durable. What a store can't do is fail: a disk that fails under it
/// ends the process. So it is for room that is there for certain, on systems that keep what is reserved;
/// elsewhere the file is written to.
#[derive(Debug, Default)]
pub(super) struct Appending {
    /// The last of `maps`, to be found without its lock; null while there is none.
    map: AtomicPtr<MmapRaw>,
    maps: Mutex<Maps>,
}

#[derive(Debug, Default)]
struct Maps {
    /// Each longer than the one before, and kept: somebody may be storing through it.
    #[expect(
        clippy::vec_box,
        reason = "they are pointed to, and stay where they are"
    )]
    all: Vec<Box<MmapRaw>>,
    /// The file can't be mapped, or its system promises nothing.
    none: bool,
}

/// As much of a file is mapped at once, if it has as much.
const LEAST: u64 = 64 << 20;

/// Bytes from the record that is stored to the line that is fetched.
const AHEAD: usize = 256;

impl Appending {
    /// So many bytes are written: the system takes longer over the first store into each page of a map
    /// than over a call that writes it.
    pub(super) const LARGE: usize = 1024;

    /// Stores all of `bytes` at `offset`; `false` if they are to be written.
    pub(super) fn store(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let Some(end) = offset.checked_add(bytes.len() as u64) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let reaches = |map: &&MmapRaw| end <= map.len() as u64;
        let Some(map) = self.map().filter(reaches).or_else(|| self.grow(file, end)) else {
            return Ok(false);
        };
        // SAFETY: `offset + bytes.len() <= map.len()`, and the offset fits a usize as the map's length does.
        // Nobody has a reference to the mapped bytes: they are only ever reached through such pointers, of
        // this handle's maps or another's, by the one writer that `append_at` asks for, and through calls
        // to the system. `bytes` is no part of them. The file stays as long as it is: logs are never
        // shortened.
        let to = unsafe {
            let to = map.as_mut_ptr().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            to
        };
        // Where the next records go: what waits for a store to reach its line waits for all before it.
        super::prefetch(to.wrapping_add(AHEAD));
        Ok(true)
    }

    /// The longest map.
    fn map(&self) -> Option<&MmapRaw> {
        // SAFETY: the pointer is null or to one of `maps`, whose boxes are dropped with `self` and neither
        // before nor changed; it was stored with release after the map was made.
        unsafe { self.map.load(Ordering::Acquire).as_ref() }
    }

    /// Maps all that is reserved, if that reaches up to `end`.
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
        maps.all.push(Box::new(map));
        let last = maps.all.last_mut()?;
        self.map.store(&raw mut **last, Ordering::Release);
        self.map()
    }

    fn map_up_to(file: &File, end: u64) -> Option<MmapRaw> {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        // Not all that the file is long, should it be longer than any log: it would take room for good.
        let length = length.min(end.saturating_mul(2).max(LEAST));
        let bytes = usize::try_from(length).ok()?;
        // Reserved once more: a file of which only the length is there has holes.
        let is_reserved = length >= end
            && keeps_it_whatever_is_copied(file)
            && allocate(file, length).unwrap_or(false);
        let map = is_reserved.then(|| MmapOptions::new().len(bytes).map_raw(file))?;
        map.ok()
    }
}
