//! Why pages could not be mapped.

use std::path::PathBuf;

use crate::error::Error;

/// Why a superblock's pages could not be mapped.
#[derive(Debug)]
pub(crate) enum MapError {
    /// Checkpoints wrote over the directory while it was read. A newer superblock names another.
    Stale {
        path: PathBuf,
    },
    Failed(Error),
}

impl From<Error> for MapError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What a caller tells that does not try again.
impl From<MapError> for Error {
    fn from(error: MapError) -> Self {
        match error {
            MapError::Failed(error) => error,
            MapError::Stale { path } => Self::Busy {
                path,
                what: "checkpoints that overtake the reading of the directory",
                process: None,
            },
        }
    }
}
