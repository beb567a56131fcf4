//! The allocator of the command: the system's, with an orderly end where there is no more memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::process::memory::{advise, limit};

/// What is said of the store, whichever thread had no memory, and in the middle of whatever it was.
const SAFE: &str = "; what was committed is safe, and the next command on the store recovers it";

/// The system's allocator. Where it has no memory left, the process ends with a message and the status of an error: the
/// standard library would abort it.
pub struct Allocator;

#[expect(unsafe_code, reason = "there is no other way to be the allocator")]
// SAFETY: the system's allocator keeps the contract, and gets each call as it is. What is done beyond that does not return.
unsafe impl GlobalAlloc for Allocator {
    // SAFETY: the contract is that of the system's allocator, which the caller keeps.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the same.
        or_end(unsafe { System.alloc(layout) })
    }

    // SAFETY: the contract is that of the system's allocator, which the caller keeps.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the same.
        or_end(unsafe { System.alloc_zeroed(layout) })
    }

    // SAFETY: the contract is that of the system's allocator, which the caller keeps.
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the same.
        or_end(unsafe { System.realloc(old, layout, size) })
    }

    // SAFETY: the contract is that of the system's allocator, which the caller keeps.
    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the same.
        unsafe { System.dealloc(old, layout) }
    }
}

#[inline]
fn or_end(memory: *mut u8) -> *mut u8 {
    match memory.is_null() {
        true => end(),
        false => memory,
    }
}

/// Ends the process as a kill would, but with a message. Nothing here allocates.
#[cold]
fn end() -> ! {
    static ENDS: AtomicBool = AtomicBool::new(false);
    while ENDS.swap(true, Ordering::Relaxed) {
        // Another thread is about to end the process.
        std::thread::sleep(Duration::from_secs(1));
    }
    let mut line = Cursor::new([0_u8; 512]);
    let _ = write!(line, "everseen: ");
    let _ = advise(&mut line, limit());
    let _ = writeln!(line, "{SAFE}");
    let length = line.position() as usize;
    let _ = rustix::io::write(rustix::stdio::stderr(), &line.get_ref()[..length]);
    #[expect(
        unsafe_code,
        reason = "all safe ways run first what others have registered"
    )]
    // SAFETY: it ends the process, whatever the other threads do.
    unsafe {
        libc::_exit(2)
    }
}

/// Has the allocator reserve no more address space than it needs: by default, 64 MiB for each thread. What is large goes
/// back to the system when it is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn allocate_sparingly() {
    for (setting, value) in [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, 128 << 10)] {
        #[expect(unsafe_code, reason = "there is no safe call for it")]
        // SAFETY: these are settings of the allocator's own, which it may be given at any time.
        unsafe {
            libc::mallopt(setting, value);
        }
    }
}

/// Does nothing: no allocator here is known to reserve much more than it needs.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn allocate_sparingly() {}
