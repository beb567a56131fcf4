//! Everything that ends a command with exit status 2; each message is one line.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::lines::Place;

/// Why a command gave up.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error(
        "{path}: no such store; make one with `everseen create {path}`",
        path = path.display()
    )]
    NoStore { path: PathBuf },

    #[error(transparent)]
    Store(everseen::Error),

    #[error("{cause}; what was committed is safe, and the next command on the store recovers it")]
    Failed { cause: Arc<everseen::Error> },

    #[error(transparent)]
    Plan(#[from] everseen::sizing::SizingError),

    #[error("{name}: {source}")]
    Input { name: String, source: io::Error },

    #[error("{name}: is a folder; name the files in it")]
    InputIsFolder { name: String },

    #[error(
        "{name}: is the output as well, so it would be read without end; write to another file"
    )]
    InputIsOutput { name: String },

    #[error(
        "{name}: is a name for files of the store {store}, which may replace or remove it; choose another name",
        store = store.display()
    )]
    SideFile { name: String, store: PathBuf },

    #[error(
        "{name}: the item that starts at byte {offset} is longer than {limit}; are items separated another way (-0)?"
    )]
    ItemTooLong {
        name: String,
        offset: u64,
        limit: String,
    },

    /// All items before this one are done.
    #[error(
        "{input}:{line}: the store {store} is full: it was made for {capacity} keys, and has all lines before this one; make a larger one, or one that grows (kind scalable)",
        input = place.input, line = place.line, store = store.display()
    )]
    Full {
        store: PathBuf,
        capacity: u64,
        place: Place,
    },

    #[error("the thread that reads the input died; what was read before is done")]
    ReaderDied,

    #[error("standard output: {0}")]
    Output(io::Error),

    #[error(
        "--pages: {pages} does not divide the {has} pages of the store; `everseen create --foldable` makes stores that can be halved"
    )]
    NoDivisor { pages: u64, has: u64 },

    #[error("could not {action}: {source}")]
    System {
        action: &'static str,
        source: io::Error,
    },

    #[error("{0}")]
    Usage(&'static str),
}

impl CliError {
    /// Whether nobody reads the output any more, which is a reader's right and no error.
    pub fn is_closed_output(&self) -> bool {
        matches!(self, CliError::Output(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<everseen::Error> for CliError {
    fn from(error: everseen::Error) -> Self {
        match error {
            everseen::Error::NotFound { path } => CliError::NoStore { path },
            everseen::Error::Poisoned { cause } => CliError::Failed { cause },
            other => CliError::Store(other),
        }
    }
}
