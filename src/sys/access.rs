//! Checks what the system permits this process to do, before an attempt.

use std::io;
use std::path::Path;

/// Fails if the process may not create files in a folder; says nothing where only an attempt can show it.
#[cfg(not(everseen_portable))]
pub(crate) fn expect_to_make_in(folder: &Path) -> io::Result<()> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use rustix::io::Errno;
    let asked = Access::WRITE_OK | Access::EXEC_OK;
    match accessat(CWD, folder, asked, AtFlags::EACCESS) {
        Err(error @ (Errno::ACCESS | Errno::ROFS)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Fails if the process may not create files in a folder; says nothing where only an attempt can show it.
#[cfg(everseen_portable)]
pub(crate) fn expect_to_make_in(_: &Path) -> io::Result<()> {
    Ok(())
}
