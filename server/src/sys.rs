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

/// Lets this process have as many files open as its limit may be raised to; returns that number, if the system tells.
pub fn raise_open_files() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls take a pointer to a struct of this function's own, which lives until they return.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return None;
        }
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            ..limit
        };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) == 0 {
            limit = raised;
        }
    }
    Some(limit.rlim_cur)
}
