//! The errors that end a command with exit status 2; each message is one line.

mod command_words;
mod keys;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everseen::{FileKind, Kind, LogError};

use self::command_words::{as_argument, in_command_words};
pub use self::keys::KeyError;
use crate::input::compressed::Format;
use crate::input::record_blocks::Place;
use crate::input::window_limit::LARGEST_LOG;
use crate::output::format::{self as human, many};
use crate::process::handle::links;
use crate::process::memory;

/// The bytes by which a store is known; a shorter file may be anything.
const MAGIC_BYTES: u64 = 8;

/// Why a command gave up.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error(
        "{path}: no such store; create one with `everseen create {path}`",
        path = path.display()
    )]
    NoStore { path: PathBuf },

    /// A command that creates no store was given a wrong name.
    #[error("{path}: no such store; check the name", path = path.display())]
    WrongName { path: PathBuf },

    #[error(
        "{path}: is an empty file, not a store yet; make it one with `everseen create {path}`",
        path = path.display()
    )]
    EmptyFile { path: PathBuf },

    #[error(
        "--at is for stores that forget, and a new one keeps its lines for ever without --forget-after T"
    )]
    TimeWithoutForgetting,

    #[error(
        "the server, everseen-server, is neither beside this command nor on the PATH; install it, for example with `cargo install everseen-server`"
    )]
    NoServer,

    #[error(
        "{path}: already exists; choose another name, or remove it first",
        path = path.display()
    )]
    Exists { path: PathBuf },

    /// A log lies beside the name of the store under which it was written.
    #[error(
        "{path}: the log of generation {generation} does not lie beside this name of the store, and the file has {names} names (hard links); open it by the one beside which the log lies, or, if the log is lost, give it up with `everseen repair`",
        path = path.display()
    )]
    LogBesideOtherName {
        path: PathBuf,
        generation: u64,
        names: u64,
    },

    #[error(
        "{path}: was removed, renamed or replaced while the store was open; put it back, or restore it from a copy",
        path = path.display()
    )]
    StoreGone { path: PathBuf },

    #[error(
        "{path}: was replaced by another file while it was read; what this run has printed comes from the old one; run the command again",
        path = path.display()
    )]
    StoreReplaced { path: PathBuf },

    #[error(
        "{path}: this log of the store was removed, renamed or replaced while the store was open; put it back, or, if it is lost, give up what was in it with `everseen repair {store}`",
        path = path.display(), store = store.display()
    )]
    LogGone { path: PathBuf, store: PathBuf },

    #[error("--kind {0} needs --capacity N{why}", why = match .0 {
        Kind::Counting => ", since it can't grow: removing a key from the wrong layer would damage others",
        _ => "; --kind fingerprint and --kind scalable grow without one",
    })]
    NeedsCapacity(Kind),

    /// An option of the library, which the command has under the same name.
    #[error("--{option}: got {got}, expected {expected}")]
    Option {
        option: String,
        got: String,
        expected: String,
    },

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

    #[error(transparent)]
    Keys(#[from] KeyError),

    #[error("{}", in_command_words(.0))]
    Store(everseen::Error),

    #[error(
        "{cause}; what was committed is safe, and the next command on the store recovers it",
        cause = in_command_words(cause)
    )]
    Failed { cause: Arc<everseen::Error> },

    #[error(transparent)]
    Plan(#[from] everseen::sizing::SizingError),

    #[error("{name}: {why}", why = plain(source))]
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

    #[error(
        "{name}: its {format} data refers to text further back than {limit}, which a decoder may keep; {advice}",
        limit = human::bytes(1 << log), advice = match *log < LARGEST_LOG {
            true => format!("allow it {} of memory with --long={LARGEST_LOG}", human::bytes(1 << LARGEST_LOG)),
            false => format!("decompress it first, as in `{format} -dc {} | everseen ...`", as_argument(name)),
        }
    )]
    WindowTooLarge {
        name: String,
        format: Format,
        log: u32,
    },

    #[error(
        "{name}: is {format} data, which this program does not read; make lines of it first, as in `{program} | everseen ...` (--no-decompress reads it as it is)",
        program = format.other_program().unwrap_or("cat NAME").replace("NAME", as_argument(name))
    )]
    ForeignFormat { name: String, format: Format },

    #[error(
        "{name}: is {inner} data within {outer} data; decompress it once, and name what comes out (--no-decompress reads it as it is)"
    )]
    TwiceCompressed {
        name: String,
        outer: Format,
        inner: Format,
    },

    #[error("{name}: names no file to read; name some in it, or leave --files-from out")]
    EmptyList { name: String },

    #[error(
        "{store}: knows how far so many output files were written that it has no room for another; append to one of them (-o), or print to the file (>>)"
    )]
    TooManyOutputs { store: PathBuf },

    #[error(
        "{name}: is {format} data, to which no lines can be appended; name another file, and compress it afterwards"
    )]
    OutputIsCompressed { name: String, format: Format },

    #[error(
        "--as seen: a store of kind fingerprint lists its keys, so no page can have all of them; without --as, the keys of damaged pages count as never seen"
    )]
    RepairAsSeen,

    #[error("{name}: is a folder; name the files in it")]
    InputIsFolder { name: String },

    #[error("{name}: is also the output, so reading it would never end; write to another file")]
    InputIsOutput { name: String },

    #[error("{name}: is the store itself, or a file of its own; name another file to read")]
    InputIsStore { name: String },

    #[error(
        "{name}: is {packed}{kind}, not a list of lines; {meant}",
        packed = format.map_or(String::new(), |format| format!("{format} data of "))
    )]
    InputIsOwnFile {
        name: String,
        kind: FileKind,
        format: Option<Format>,
        meant: String,
    },

    #[error("{name}: is {kind}, which printed lines would damage; {meant}")]
    OutputIsOwnFile {
        name: String,
        kind: FileKind,
        meant: String,
    },

    #[error(
        "{name}: is a name that the store {store} uses for files of its own; choose another name",
        store = store.display()
    )]
    SideFile { name: String, store: PathBuf },

    #[error(
        "{name}:{line}: longer than {limit}; raise --max-line, skip such lines (--skip-long), or separate items by NUL bytes (-0)"
    )]
    ItemTooLong {
        name: String,
        line: u64,
        limit: String,
    },

    /// All items before this one are processed.
    #[error(
        "{input}:{line}: the store {store} is full: it was created for {keys} and has all lines before this one; create a larger one, or one without a capacity, which grows",
        input = place.input.display(), line = place.line, store = store.display(), keys = many(*capacity, "key")
    )]
    Full {
        store: PathBuf,
        capacity: u64,
        place: Place,
    },

    #[error("the thread that reads the input died; what was read before is done")]
    ReaderDied,

    #[error("standard output: {}", plain(.0))]
    Output(io::Error),

    #[error("standard error: {}", plain(.0))]
    Summary(io::Error),

    #[error(
        "standard output is closed, so what is printed would be lost; redirect it, if only to /dev/null"
    )]
    NoOutput,

    #[error("{path}: {why}", path = path.display(), why = plain(source))]
    OutputFile { path: PathBuf, source: io::Error },

    #[error("{path}: no such folder; create it first", path = path.display())]
    NoFolder { path: PathBuf },

    #[error("{path}: is not a folder; name another one", path = path.display())]
    NotAFolder { path: PathBuf },

    #[error("{path}: is a link that leads nowhere; remove it, or choose another name", path = path.display())]
    DanglingLink { path: PathBuf },

    #[error(
        "{path}: is {what}, and only a regular file with a name can be cut back to what was committed; leave out -o and print to standard output"
    , path = path.display())]
    OutputIsNoFile { path: PathBuf, what: &'static str },

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

    /// What follows the committed bytes may be good lines.
    #[error(
        "{path}: has {length} bytes, of which this store knows {known}: {why}; keep all of them and append (--output-longer keep), or cut the file to what the store knows (--output-longer cut)",
        path = path.display(), known = known.map_or("none".to_owned(), |known| known.to_string())
    )]
    OutputLonger {
        path: PathBuf,
        length: u64,
        known: Option<u64>,
        why: &'static str,
    },

    #[error(
        "{path}: this store knows nothing of it, so there is nothing to cut it to; append to it (--output-longer keep), or name another file",
        path = path.display()
    )]
    OutputUnknown { path: PathBuf },

    #[error(
        "{path}: was removed, renamed or replaced while this run wrote to it; put it back, and run this again on the same input",
        path = path.display()
    )]
    OutputGone { path: PathBuf },

    #[error(
        "{path}: is not transactional, and only a transactional store can keep each line exactly once in a file; create one with `everseen create --transactional`, or append standard output (>>)"
    , path = path.display())]
    NotTransactional { path: PathBuf },

    #[error(
        "{path}: another `everseen dedup` is using it, and only a transactional store takes several at once; wait until it ends, or create one with `everseen create --transactional`"
    , path = path.display())]
    NotAlone { path: PathBuf },

    #[error(
        "--pages: {pages} does not divide {has}, the number of pages of the store; `everseen create --foldable` creates stores that can be halved"
    )]
    NoDivisor { pages: u64, has: u64 },

    #[error("could not {action}: {why}", why = plain(source))]
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
                    | everseen::FormatError::Truncated { got: ..MAGIC_BYTES, .. }),
            } => CliError::NotAStore { path, source },
            other => other.into(),
        }
    }

    /// Explains why the store of a command that adds or removes lines could not be opened.
    pub fn of_changed(error: everseen::Error) -> Self {
        match error {
            everseen::Error::NotFound { path } => CliError::NoStore { path },
            other => CliError::of_first_argument(other),
        }
    }

    /// Explains why a named output, or a file of a store, could not be reached.
    pub fn of_output(path: &Path, source: io::Error) -> Self {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        match source.kind() {
            ErrorKind::NotFound if path.is_symlink() => CliError::DanglingLink {
                path: path.to_owned(),
            },
            ErrorKind::NotFound if !folder.exists() => CliError::NoFolder {
                path: folder.to_owned(),
            },
            ErrorKind::NotADirectory => CliError::NotAFolder {
                path: folder.to_owned(),
            },
            _ => CliError::OutputFile {
                path: path.to_owned(),
                source,
            },
        }
    }

    /// Explains what ended the work on a store that was open.
    fn of_failure(cause: Arc<everseen::Error>) -> Self {
        match &*cause {
            everseen::Error::Moved { path } => CliError::of_lost_name(path.clone()),
            _ => CliError::Failed { cause },
        }
    }

    /// Explains that a file of an open store has lost its name.
    fn of_lost_name(path: PathBuf) -> Self {
        match store_of_log(&path) {
            Some(store) => CliError::LogGone { path, store },
            None => CliError::StoreGone { path },
        }
    }

    /// Explains that a log is missing: it may lie beside another name of the store.
    fn of_missing_log(path: PathBuf, generation: u64) -> Self {
        let store = store_of_log(&path).unwrap_or_else(|| path.clone());
        match fs::metadata(&store).map_or(1, |file| links(&file)) {
            0 | 1 => CliError::Store(everseen::Error::Log {
                path,
                source: LogError::Missing { generation },
            }),
            names => CliError::LogBesideOtherName {
                path: store,
                generation,
                names,
            },
        }
    }

    /// Returns whether something can't be printed, and therefore must not be remembered.
    pub fn is_output(&self) -> bool {
        matches!(
            self,
            CliError::Output(_) | CliError::OutputFile { .. } | CliError::OutputGone { .. }
        )
    }

    /// Returns whether the reader of the output has closed it, which is its right and not an error.
    pub fn is_closed_output(&self) -> bool {
        matches!(self, CliError::Output(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<everseen::Error> for CliError {
    fn from(error: everseen::Error) -> Self {
        match error {
            everseen::Error::NotFound { path } => CliError::WrongName { path },
            everseen::Error::EmptyFile { path } => CliError::EmptyFile { path },
            everseen::Error::AlreadyExists { path } => CliError::Exists { path },
            everseen::Error::Io { path, source, .. }
                if source.kind() == ErrorKind::NotADirectory =>
            {
                CliError::of_output(&path, source)
            }
            everseen::Error::Poisoned { cause } => CliError::of_failure(cause),
            everseen::Error::Moved { path } => CliError::of_lost_name(path),
            everseen::Error::Replaced { path } => CliError::StoreReplaced { path },
            everseen::Error::Log {
                path,
                source: LogError::Missing { generation },
            } => CliError::of_missing_log(path, generation),
            everseen::Error::InvalidOption {
                option,
                expected,
                got,
            } => CliError::Option {
                option: option.replace('_', "-"),
                got,
                expected,
            },
            other => CliError::Store(other),
        }
    }
}

/// Returns the store whose log has this name, if it is the name of a log.
fn store_of_log(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (store, number) = name.rsplit_once("-log.")?;
    let is_log = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_log.then(|| path.with_file_name(store))
}

/// Says what the system complains of, in the words in which the library says it of a store.
fn plain(source: &io::Error) -> String {
    let words = match source.kind() {
        ErrorKind::NotFound => "no such file",
        ErrorKind::PermissionDenied => "permission denied",
        ErrorKind::ReadOnlyFilesystem => "the disk can only be read",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "no space left on the disk; make room and try again"
        }
        ErrorKind::OutOfMemory => return memory::advice(),
        ErrorKind::IsADirectory => "is a folder; name a file",
        ErrorKind::NotADirectory => "no such file, since part of its path is not a folder",
        _ => return source.to_string(),
    };
    words.to_owned()
}
