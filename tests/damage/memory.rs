//! How much memory an image may take.

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// What opening and using a store takes at most beside its files' bytes and the granted buffer: windows of 256 KiB
/// over two logs, two superblocks' places, and small change.
pub const FIXED: u64 = 1 << 20;

/// Runs with leave to hold so many bytes more than now, at any one time and in any one piece. Who asks for more is
/// ended by the system, which the parent sees.
pub fn bounded<T>(bytes: u64, run: impl FnOnce() -> T) -> T {
    let limit = MEMORY.allocated() + bytes as usize;
    MEMORY.set_limit(limit).expect("nothing is allocated yet");
    let outcome = run();
    MEMORY.set_limit(usize::MAX).expect("there is no bound");
    outcome
}

/// The most bytes that this process has ever held.
pub fn peak() -> u64 {
    MEMORY.max_allocated() as u64
}
