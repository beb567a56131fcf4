//! Checks what the system permits this process to do, before an attempt.

use std::path::Path;

/// Returns whether the process may create files in a folder; `true` where only an attempt can show it.
#[cfg(target_os = "linux")]
pub(crate) fn may_make_in(folder: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use rustix::io::Errno;
    let asked = Access::WRITE_OK | Access::EXEC_OK;
    !matches!(
        accessat(CWD, folder, asked, AtFlags::EACCESS),
        Err(Errno::ACCESS | Errno::ROFS)
    )
}

/// Returns whether the process may create files in a folder; `true` where only an attempt can show it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn may_make_in(_: &Path) -> bool {
    true
}
