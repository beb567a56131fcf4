//! The limit on how much this process may map (`ulimit -v`). Files that are mapped count, and stacks, and what an allocator
//! reserves, whether or not any of it is in memory.

use std::io;
use std::path::Path;

use super::memory::{text_of, value_of};

/// What a process needs beside its buffers: the stacks of its threads, what its caller works with. With less than that
/// left, one thread has to do.
const TIGHT: u64 = 64 << 20;

/// The address space of this process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressSpace {
    pub(crate) limit: u64,
    mapped: u64,
}

impl AddressSpace {
    /// Returns the address space of this process; `None` if nothing limits it, or the system does not tell.
    pub(crate) fn of_process() -> Option<Self> {
        let limit = limit()?;
        Self::of(limit, &text_of(Path::new("/proc/self/status"))?)
    }

    /// Returns the address space of a process with a limit and this status.
    pub(super) fn of(limit: u64, status: &str) -> Option<Self> {
        let mapped = value_of(status, "VmSize:")?.saturating_mul(1024);
        Some(Self { limit, mapped })
    }

    /// Returns how many bytes may still be mapped. Beyond that, an allocation that can't fail ends the process.
    pub(crate) fn left(self) -> u64 {
        self.limit.saturating_sub(self.mapped)
    }

    /// Returns whether this process has too little left for what only saves time.
    pub(crate) fn is_tight() -> bool {
        Self::of_process().is_some_and(|space| space.left() < TIGHT)
    }

    /// Refuses work that needs memory which this process may not map: most of what it allocates can't fail, and would end
    /// the process.
    pub(crate) fn expect(bytes: u64) -> io::Result<()> {
        match Self::of_process() {
            Some(space) if space.left() < bytes => Err(io::ErrorKind::OutOfMemory.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(not(everseen_portable))]
fn limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

#[cfg(everseen_portable)]
fn limit() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_with_what_is_mapped() {
        let status = "Name:\tx\nVmSize:\t   20480 kB\n";
        let left = |limit: u64| AddressSpace::of(limit, status).map(AddressSpace::left);
        assert_eq!(left(83_886_080), Some(60 << 20));
        assert_eq!(left(1_048_576), Some(0));
        assert_eq!(AddressSpace::of(83_886_080, "nothing"), None);
    }
}
