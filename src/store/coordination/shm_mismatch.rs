//! Why shared words can't be joined, and what a handle is told then.

use crate::error::Error;
use crate::store::coordination::place::Place;
use crate::store::coordination::shm::{MAGIC, MOST_BUFFER, WORDS, shared_path};

/// Why shared words are not those of this store's handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShmMismatch {
    /// There are none, or they can't be read, or nobody has come to fill them in.
    NotThere,
    /// Those of another version.
    OtherLayout { magic: u64, bytes: u64 },
    /// Those of another store, or of another file with this one's id.
    OtherStore,
    /// No writing handle uses them.
    NotInUse,
    /// No buffer has so many bytes.
    Damaged { bytes: u64 },
}

impl ShmMismatch {
    /// For somebody who comes to a store that others have open.
    pub(crate) fn error(self, place: &Place) -> Error {
        let tell = |magic: u64, bytes: u64| {
            let magic = magic.to_le_bytes();
            format!("`{}` of {bytes} bytes", magic.escape_ascii())
        };
        match self {
            ShmMismatch::OtherLayout { magic, bytes } => Error::OtherLayout {
                path: shared_path(place),
                expected: tell(MAGIC, WORDS * 8),
                got: tell(magic, bytes),
            },
            ShmMismatch::Damaged { bytes } => Error::SharedMemory {
                path: place.to_path_buf(),
                word: "buffer bytes",
                expected: format!("0 to {MOST_BUFFER}"),
                got: bytes,
            },
            // They share other words, then.
            ShmMismatch::NotThere | ShmMismatch::OtherStore | ShmMismatch::NotInUse => {
                Error::OtherName {
                    path: place.to_path_buf(),
                }
            }
        }
    }
}
