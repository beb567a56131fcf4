//! From an error of the operating system to one of this crate.

use std::io;
use std::path::Path;

use super::Error;
use crate::sys::{AddressSpace, NotAFile, NotOurs};

impl Error {
    /// Maps an operating-system error to the variants that a caller may want to act on.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.get_ref() {
            Some(inner) if inner.is::<NotAFile>() => return Error::NotAFile { path },
            Some(inner) if inner.is::<NotOurs>() => return Error::InTheWay { path },
            _ => {}
        }
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::NoSpace { action, path }
            }
            io::ErrorKind::PermissionDenied => Error::PermissionDenied { action, path },
            io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnlyDisk { action, path },
            io::ErrorKind::InvalidFilename => Error::NameTooLong { action, path },
            io::ErrorKind::IsADirectory => Error::IsFolder { path },
            io::ErrorKind::OutOfMemory => Error::OutOfMemory {
                action,
                path,
                limit: AddressSpace::of_process().map(|space| space.limit),
            },
            _ => Error::Io {
                action,
                path,
                source,
            },
        }
    }

    /// Wraps a failed sync. Whatever the reason, even a full disk, what is durable is unknown from then on. So this
    /// never returns one of the variants that allow a retry.
    pub(crate) fn sync(action: &'static str, path: &Path, source: io::Error) -> Self {
        Error::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
