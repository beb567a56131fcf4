//! What the compiler can't check: two peers look at files through a memory map, and the allocator is
//! asked to give back what it keeps.

use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::MmapMut;

/// Maps a file of this process's own for reading and writing.
pub fn map(file: &File) -> io::Result<MmapMut> {
    // SAFETY: the file lies in a folder that was made for this process alone; nobody else opens it,
    // and nobody makes it shorter while it is mapped.
    unsafe { MmapMut::map_mut(file) }
}

/// Opens an LMDB environment in a new folder of this process's own.
pub fn open_lmdb(folder: &Path, map_bytes: usize) -> heed::Result<heed::Env> {
    // SAFETY: the folder was made for this process alone, on a local disk, and nobody else changes
    // its files; no flags are given, so LMDB's own locks are in force.
    unsafe { heed::EnvOpenOptions::new().map_size(map_bytes).open(folder) }
}

/// Gives freed memory back to the system, so that the next variant can't use it again unnoticed.
pub fn give_back_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes a number, may be called at any time, and touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
