//! What this process does where memory is short, above all where its address space is limited (`ulimit -v`): it works in
//! smaller pieces, or ends with a message where the standard library would abort it.

#[cfg(unix)]
mod allocator;

use std::io;

#[cfg(unix)]
pub use allocator::Allocator;

/// What the pieces that are in memory at once may take, each, of what is left.
const SHARE: u64 = 256;

/// With less than this left, no further thread is started for something that only saves time.
const TIGHT: u64 = 64 << 20;

/// With this much left, everything goes on as if there were no limit.
const PLENTY: u64 = 4 << 30;

/// What a new thread takes for its stack, and what it needs to begin.
const THREAD: u64 = 3 << 20;

/// The stack that `main` and all it calls may take. It grows as it is used, and the process dies if it can't.
const STACK: usize = 512 << 10;

/// Prepares for work in a limited address space, if it is limited.
pub fn prepare() {
    let left = left();
    if left >= PLENTY {
        return;
    }
    #[cfg(unix)]
    allocator::allocate_sparingly();
    if left > 4 * STACK as u64 {
        take_stack();
    }
}

/// Has the system map the stack now.
#[inline(never)]
fn take_stack() {
    let stack = [0_u8; STACK];
    std::hint::black_box(&stack);
}

/// Returns how many bytes this process may map, if that is limited.
#[cfg(unix)]
pub fn limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// Returns `None`: no such limit is known here.
#[cfg(not(unix))]
pub fn limit() -> Option<u64> {
    None
}

/// Returns how many bytes this process may still map: any number if that is not limited, or the system does not tell.
fn left() -> u64 {
    let Some(limit) = limit() else {
        return u64::MAX;
    };
    let told = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = told.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let size = size.and_then(|size| size.split_whitespace().next()?.parse::<u64>().ok());
    size.map_or(u64::MAX, |size| {
        limit.saturating_sub(size.saturating_mul(1024))
    })
}

/// Returns whether too little memory is left for what only saves time.
pub fn is_tight() -> bool {
    left() < TIGHT
}

/// Returns how large a piece of the input may be that is in memory: `most` bytes, or as many as there is room for.
pub fn piece(most: usize) -> usize {
    let room = usize::try_from(left() / SHARE).unwrap_or(usize::MAX);
    room.clamp(most / 16, most)
}

/// Refuses to take so many bytes if the process may not map them.
pub fn expect(bytes: usize) -> io::Result<()> {
    match left() < bytes as u64 {
        true => Err(io::ErrorKind::OutOfMemory.into()),
        false => Ok(()),
    }
}

/// Refuses to start a thread that could not begin.
pub fn expect_thread() -> io::Result<()> {
    expect(THREAD as usize)
}

/// Returns why there is no more memory, and what to do.
pub fn advice() -> String {
    let mut text = Vec::new();
    let _ = advise(&mut text, limit());
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes that, without allocating.
fn advise(out: &mut impl io::Write, limit: Option<u64>) -> io::Result<()> {
    match limit {
        Some(bytes) => write!(
            out,
            "out of memory, since this process may map no more than {} KiB (`ulimit -v`); raise that limit",
            bytes / 1024
        ),
        None => write!(out, "out of memory; end other programs"),
    }?;
    write!(out, ", or grant less for buffers with `--buffer`")
}
