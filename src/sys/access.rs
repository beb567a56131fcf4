//! What the system lets this process do, asked before it is tried.

use std::path::Path;

/// Whether files may be made in a folder. Where the system can't tell, trying will.
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

/// Whether files may be made in a folder. Where the system can't tell, trying will.
#[cfg(not(target_os = "linux"))]
pub(crate) fn may_make_in(_: &Path) -> bool {
    true
}
