//! The errors that end a command with exit status 2; each message is one line.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::input::compressed::Format;
use crate::input::record_blocks::Place;

/// Why a command gave up.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error(
        "{path}: no such store; make one with `everseen create {path}`",
        path = path.display()
    )]
    NoStore { path: PathBuf },

    #[error(
        "{path}: not an Everseen store (did you forget the STORE argument?)",
        path = path.display()
    )]
    NotAStore { path: PathBuf },

    #[error(
        "{path}: exists already, and is {has}: leave out {asked}, or name another store",
        path = path.display()
    )]
    OtherStore {
        path: PathBuf,
        asked: String,
        has: String,
    },

    #[error(transparent)]
    Store(everseen::Error),

    #[error("{cause}; what was committed is safe, and the next command on the store recovers it")]
    Failed { cause: Arc<everseen::Error> },

    #[error(transparent)]
    Plan(#[from] everseen::sizing::SizingError),

    #[error("{name}: {source}")]
    Input { name: String, source: io::Error },

    #[error("{name}: its {format} data is cut short; the lines before the cut are done")]
    CutShort { name: String, format: Format },

    #[error(
        "{name}: its {format} data can't be read: {source}; the lines before that are done (--no-decompress takes it as it is)"
    )]
    NotDecompressed {
        name: String,
        format: Format,
        source: io::Error,
    },

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
        "{name}:{line}: longer than {limit}; set --max-line, or are items separated another way (-0)?"
    )]
    ItemTooLong {
        name: String,
        line: u64,
        limit: String,
    },

    /// All items before this one are processed.
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
        "standard output is closed, so that what is printed would be lost; open it, if only to /dev/null"
    )]
    NoOutput,

    #[error("{path}: {source}", path = path.display())]
    OutputFile { path: PathBuf, source: io::Error },

    #[error(
        "{path}: is not a regular file, and only such a one can be taken back to what was committed; print to standard output"
    , path = path.display())]
    OutputIsNoFile { path: PathBuf },

    #[error("{path}: is the store itself; name another file to print to", path = path.display())]
    OutputIsStore { path: PathBuf },

    #[error(
        "{path}: exists already, and is no report of `everseen report`; name another file"
    , path = path.display())]
    NotAReport { path: PathBuf },

    #[error(
        "{path}: another run writes to it; wait until that has ended, or name another file"
    , path = path.display())]
    OutputInUse { path: PathBuf },

    #[error(
        "{path}: {why}, and so it can't go on where the run before it was cut off; put that file back as it was, or name another: what is committed is not printed again"
    , path = path.display())]
    OutputChanged { path: PathBuf, why: String },

    #[error(
        "{path}: is not transactional, and only such a store can keep each line exactly once in a file; make one with `everseen create --transactional`, or append standard output (>>)"
    , path = path.display())]
    NotTransactional { path: PathBuf },

    #[error(
        "{path}: another `everseen dedup` is at work on it, and only a transactional store takes several at once; wait until that has ended, or make one with `everseen create --transactional`"
    , path = path.display())]
    NotAlone { path: PathBuf },

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
    /// Explains why the store of a command that takes files as well could not be opened: its first argument may have been
    /// meant to be a file.
    pub fn of_first_argument(error: everseen::Error) -> Self {
        match error {
            everseen::Error::Format {
                path,
                source: everseen::FormatError::NotAStore { .. },
            } => CliError::NotAStore { path },
            other => other.into(),
        }
    }

    /// Returns whether something can't be printed, and therefore must not be remembered.
    pub fn is_output(&self) -> bool {
        matches!(self, CliError::Output(_) | CliError::OutputFile { .. })
    }

    /// Returns whether the reader of the output has closed it, which is its right and not an error.
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
