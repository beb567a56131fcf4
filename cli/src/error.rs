//! The errors that end a command with exit status 2; each message is one line.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::input::compressed::Format;
use crate::input::record_blocks::Place;
use crate::output::format::thousands;

/// The bytes by which a store is known; a shorter file may be anything.
const MARK: u64 = 8;

/// Why a command gave up.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error(
        "{path}: no such store; create one with `everseen create {path}`",
        path = path.display()
    )]
    NoStore { path: PathBuf },

    #[error(
        "{path}: {source} (did you forget the STORE argument?)",
        path = path.display()
    )]
    NotAStore {
        path: PathBuf,
        source: everseen::FormatError,
    },

    #[error(
        "{path}: already exists and is {has}; leave out {asked}, or name another store",
        path = path.display()
    )]
    OtherStore {
        path: PathBuf,
        asked: String,
        has: String,
    },

    /// The label of the store tells how its lines are read.
    #[error(
        "{path}: was created to compare lines {kept}, which {asked} contradicts; leave {asked} out, or name another store",
        path = path.display()
    )]
    OtherReading {
        path: PathBuf,
        asked: &'static str,
        kept: String,
    },

    #[error("{option}: needs --url, since the store does not say that it compares URLs")]
    NeedsUrl { option: &'static str },

    #[error(
        "{path}: compares URLs by version {got} of the rules, and this program by version {expected}, which may tell other URLs apart; use a program with version {got}, or create the store again",
        path = path.display()
    )]
    OtherRules {
        path: PathBuf,
        expected: u32,
        got: u32,
    },

    #[error(
        "{path}: its lines are read in a way that this program does not know ({label}); use a newer program",
        path = path.display()
    )]
    UnknownReading { path: PathBuf, label: String },

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
        "{name}: its {format} data can't be read: {source}; the lines before that are done (--no-decompress reads it as it is)"
    )]
    NotDecompressed {
        name: String,
        format: Format,
        source: io::Error,
    },

    #[error("{name}: is a folder; name the files in it")]
    InputIsFolder { name: String },

    #[error("{name}: is also the output, so reading it would never end; write to another file")]
    InputIsOutput { name: String },

    #[error("{name}: is the store itself, or a file of its own; name another file to read")]
    InputIsStore { name: String },

    #[error(
        "{name}: is a name that the store {store} uses for files of its own; choose another name",
        store = store.display()
    )]
    SideFile { name: String, store: PathBuf },

    #[error(
        "{name}:{line}: longer than {limit}; raise --max-line, or separate items by NUL bytes (-0)"
    )]
    ItemTooLong {
        name: String,
        line: u64,
        limit: String,
    },

    /// All items before this one are processed.
    #[error(
        "{input}:{line}: the store {store} is full: it was created for {capacity} keys and has all lines before this one; create a larger one, or one that grows (--kind scalable)",
        input = place.input, line = place.line, store = store.display(), capacity = thousands(*capacity)
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
        "standard output is closed, so what is printed would be lost; redirect it, if only to /dev/null"
    )]
    NoOutput,

    #[error("{path}: {source}", path = path.display())]
    OutputFile { path: PathBuf, source: io::Error },

    #[error(
        "{path}: is not a regular file, and only a regular file can be cut back to what was committed; print to standard output"
    , path = path.display())]
    OutputIsNoFile { path: PathBuf },

    #[error("{path}: is the store itself; name another file to print to", path = path.display())]
    OutputIsStore { path: PathBuf },

    #[error(
        "{path}: already exists and is not a report of `everseen report`; name another file"
    , path = path.display())]
    NotAReport { path: PathBuf },

    #[error(
        "{path}: another run is writing to it; wait until it ends, or name another file"
    , path = path.display())]
    OutputInUse { path: PathBuf },

    #[error(
        "{path}: {why}, so this run can't continue where the last one was cut off; restore the file, or name another one (what is committed is not printed again)"
    , path = path.display())]
    OutputChanged { path: PathBuf, why: String },

    #[error(
        "{path}: is not transactional, and only a transactional store can keep each line exactly once in a file; create one with `everseen create --transactional`, or append standard output (>>)"
    , path = path.display())]
    NotTransactional { path: PathBuf },

    #[error(
        "{path}: another `everseen dedup` is using it, and only a transactional store takes several at once; wait until it ends, or create one with `everseen create --transactional`"
    , path = path.display())]
    NotAlone { path: PathBuf },

    #[error(
        "--pages: {pages} does not divide the {has} pages of the store; `everseen create --foldable` creates stores that can be halved"
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
                source:
                    source @ (everseen::FormatError::NotAStore { .. }
                    // Too short for the mark of a store.
                    | everseen::FormatError::Truncated { got: ..MARK, .. }),
            } => CliError::NotAStore { path, source },
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
