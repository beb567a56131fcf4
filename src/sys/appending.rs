//! Writing through a map of what a file has reserved, which spares a call to the system each time.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

use memmap2::{MmapOptions, MmapRaw};

use super::disk::{allocate, keeps_it_whatever_is_copied};

/// How bytes get into the room that a file has reserved.
///
/// What was stored through a map is in the page cache, as what was written is: a kill loses none of
/// it, and a sync of the file makes it durable. What a store can't do is fail: a disk that fails under it
/// ends the process. So it is for room that is there for certain, on systems that keep what is reserved;
/// elsewhere the file is written to.
#[derive(Debug, Default)]
pub(super) struct Appending(Mutex<Way>);

#[derive(Debug, Default)]
enum Way {
    #[default]
    Unknown,
    Mapped(MmapRaw),
    /// The file can't be mapped, or its system promises nothing.
    Written,
}

impl Appending {
    /// So many bytes are written: the system takes longer over the first store into each page of a map
    /// than over a call that writes it.
    pub(super) const LARGE: usize = 1024;

    /// Stores all of `bytes` at `offset`; `false` if they are to be written.
    pub(super) fn store(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let mut way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(end) = offset.checked_add(bytes.len() as u64) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if matches!(&*way, Way::Written) {
            return Ok(false);
        }
        let held = match &*way {
            Way::Mapped(map) => map.len() as u64,
            _ => 0,
        };
        if end > held {
            *way = Self::map(file, end);
        }
        let Way::Mapped(map) = &*way else {
            return Ok(false);
        };
        // SAFETY: `offset + bytes.len() <= map.len()`, since a map that was too short has just been
        // made anew, and the offset fits a usize as the map's length does. Nobody has a reference to
        // the mapped bytes: they are only ever reached through this pointer, or that of another
        // handle's map, by the one writer that `append_at` asks for, and through calls to the system.
        // `bytes` is no part of them. The file stays as long as it is: logs are never shortened.
        unsafe {
            let to = map.as_mut_ptr().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ok(true)
    }

    /// Maps all that is reserved, if that reaches up to `end`.
    fn map(file: &File, end: u64) -> Way {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let Ok(bytes) = usize::try_from(length) else {
            return Way::Written;
        };
        // Reserved once more: a file of which only the length is there has holes.
        let is_reserved = length >= end
            && keeps_it_whatever_is_copied(file)
            && allocate(file, length).unwrap_or(false);
        if !is_reserved {
            return Way::Written;
        }
        match MmapOptions::new().len(bytes).map_raw(file) {
            Ok(map) => Way::Mapped(map),
            Err(_) => Way::Written,
        }
    }
}
