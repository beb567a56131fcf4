//! Why shared words cannot be joined, and the error for each reason.

use crate::error::Error;
use crate::shm::buffer_sizes::{BufferSizes, MOST_BUFFER};
use crate::shm::coordination::{SHM_MAGIC, SHM_WORDS, shared_path};
use crate::shm::place::Place;

/// Why shared words do not belong to this store's handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShmMismatch {
    /// They do not exist, cannot be read, or have not been filled in.
    NotThere,
    /// They belong to another version.
    OtherLayout { magic: u64, bytes: u64 },
    /// They belong to another store, or to another file with this store's id.
    OtherStore,
    /// No writing handle uses them.
    NotInUse,
    /// No buffers have these sizes.
    Damaged(BufferSizes),
}

impl ShmMismatch {
    /// Returns the error for a handle that opens a store that others have open.
    pub(crate) fn error(self, place: &Place) -> Error {
        let tell = |magic: u64, bytes: u64| {
            let magic = magic.to_le_bytes();
            format!("`{}` of {bytes} bytes", magic.escape_ascii())
        };
        match self {
            ShmMismatch::OtherLayout { magic, bytes } => Error::OtherLayout {
                path: shared_path(place),
                expected: tell(SHM_MAGIC, SHM_WORDS * 8),
                got: tell(magic, bytes),
            },
            ShmMismatch::Damaged(BufferSizes { least, most }) => {
                let (word, expected, got) = match most <= MOST_BUFFER {
                    true => ("buffer bytes", format!("0 to {most}"), least),
                    false => (
                        "most buffer bytes",
                        format!("{least} to {MOST_BUFFER}"),
                        most,
                    ),
                };
                Error::SharedMemory {
                    path: place.to_path_buf(),
                    word,
                    expected,
                    got,
                }
            }
            // So the other handles share other words.
            ShmMismatch::NotThere | ShmMismatch::OtherStore | ShmMismatch::NotInUse => {
                Error::OtherName {
                    path: place.to_path_buf(),
                }
            }
        }
    }
}
