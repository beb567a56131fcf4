//! The limit on how much this process may map (`ulimit -v`). Files that are mapped count, and stacks, and what an allocator
//! reserves, whether or not any of it is in memory.

use std::io;
use std::path::Path;

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
        match cfg!(not(everseen_portable)) {
            true => Self::read(&|path| std::fs::read_to_string(path).ok()),
            false => None,
        }
    }

    /// Reads what the system tells in files; `read` returns the text of one.
    pub(super) fn read(read: &dyn Fn(&Path) -> Option<String>) -> Option<Self> {
        let limits = read(Path::new("/proc/self/limits"))?;
        let mut lines = limits.lines();
        let soft = lines.find_map(|line| line.strip_prefix("Max address space"))?;
        let limit = soft.split_whitespace().next()?.parse().ok()?;
        let status = read(Path::new("/proc/self/status"))?;
        let mapped = super::memory::value_of(&status, "VmSize:")?.saturating_mul(1024);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn space(limits: Option<&str>, status: Option<&str>) -> Option<AddressSpace> {
        AddressSpace::read(&|path| {
            let text = match path.to_str()? {
                "/proc/self/limits" => limits,
                _ => status,
            };
            text.map(str::to_owned)
        })
    }

    #[test]
    fn a_limit_counts_with_what_is_mapped() {
        let limits = |limit: &str| {
            format!("Limit  Soft Limit  Hard Limit  Units\nMax address space  {limit}  bytes\n")
        };
        let status = Some("Name:\tx\nVmSize:\t   20480 kB\n");
        let left = |limit: &str| space(Some(&limits(limit)), status).map(AddressSpace::left);
        assert_eq!(left("83886080 unlimited"), Some(60 << 20));
        assert_eq!(left("1048576 1048576"), Some(0));
        assert_eq!(left("unlimited unlimited"), None);
        assert_eq!(left(""), None);
        let limited = limits("83886080 unlimited");
        assert_eq!(space(Some(&limited), Some("nothing")), None);
        assert_eq!(space(Some(&limited), None), None);
        assert_eq!(space(None, status), None);
    }
}
