//! What only the C library offers.

/// Has the allocator give large blocks back to the system once they are free. By itself it keeps those of each thread that
/// has checkpointed for the next one: three times as much memory, for as long as the server runs.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_large_blocks_back() {
    // SAFETY: it sets two numbers of the allocator, and is called before there are other threads. If it is refused, memory
    // is kept as before.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_large_blocks_back() {}
