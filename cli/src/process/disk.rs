//! The room on a disk.

use std::path::Path;

/// Returns how many bytes the disk under a file has free for this user. `None` where the system can't tell.
#[cfg(unix)]
pub fn free(file: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(file).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(unix))]
pub fn free(_file: &Path) -> Option<u64> {
    None
}
