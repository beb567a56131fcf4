//! What the compiler can't check: two peers look at files through a memory map, the allocator is asked to give back what
//! it keeps, and the system to wait for several connections.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
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

/// What a connection waits for.
#[derive(Clone, Copy, Debug)]
pub struct Wants {
    pub read: bool,
    pub write: bool,
}

/// Waits until one of the connections has what it waits for; which have.
pub fn poll(waiting: &[(&TcpStream, Wants)]) -> io::Result<Vec<bool>> {
    let entry = |(stream, wants): &(&TcpStream, Wants)| libc::pollfd {
        fd: if wants.read || wants.write {
            stream.as_raw_fd()
        } else {
            -1
        },
        events: (if wants.read { libc::POLLIN } else { 0 })
            | (if wants.write { libc::POLLOUT } else { 0 }),
        revents: 0,
    };
    let mut entries: Vec<_> = waiting.iter().map(entry).collect();
    loop {
        // SAFETY: the entries are as many as is said, and live until the call returns; the streams do, too.
        let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, -1) };
        match ready {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            _ => return Ok(entries.iter().map(|entry| entry.revents != 0).collect()),
        }
    }
}

/// Keeps this thread on a core.
pub fn pin(core: usize) -> io::Result<()> {
    // SAFETY: the set is plain data, for which zero is the empty set; it is as long as is said, and `core` is checked by
    // the macro's own function.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set)
    };
    match pinned {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until all that was written is on its disk.
pub fn sync() {
    // SAFETY: it takes nothing and touches no memory of ours.
    unsafe { libc::sync() }
}
