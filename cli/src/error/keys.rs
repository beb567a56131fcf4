//! The errors about how lines become keys.

use std::path::PathBuf;

use everseen_keys::columns::ColumnError;
use everseen_keys::extractor::Stray;
use everseen_keys::json::PointerError;

/// Why lines can't become keys as they were to.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The label of the store tells how its lines are read.
    #[error(
        "{path}: was created to compare lines {kept}, which {asked} contradicts; leave {asked} out, or {otherwise}",
        path = path.display()
    )]
    OtherReading {
        path: PathBuf,
        asked: String,
        kept: String,
        otherwise: &'static str,
    },

    #[error("{option}: needs --url, since the store does not say that it compares URLs")]
    NeedsUrl { option: &'static str },

    #[error("{option}: needs {needs}, since the store does not say so of its records")]
    NeedsRecordKey {
        option: &'static str,
        needs: &'static str,
    },

    #[error("--json-key: {0}")]
    JsonKey(PointerError),

    #[error("--csv-key: {0}")]
    CsvKey(ColumnError),

    #[error("--key-field: {0}")]
    KeyField(ColumnError),

    #[error(
        "{name}: {reason}; name one that is there, or, if the first record is no header, put the header before it (for a new store, its number with --no-header will do): {header}"
    )]
    NoColumn {
        name: String,
        reason: ColumnError,
        header: String,
    },

    #[error(
        "{name}: its header is longer than {limit}, and without it no column is known; raise --max-line"
    )]
    LongHeader { name: String, limit: String },

    #[error(
        "{name}: its header is not that of the files before it, so one header can't stand for all; give this file a run of its own: {header}"
    )]
    OtherHeader { name: String, header: String },

    #[error(
        "{name}: begins with {found}, and the input with the header {header}, so rows would stand under other names; print to another file (if the inputs have no header, give --no-header)"
    )]
    OutputHasOtherHeader {
        name: String,
        found: String,
        header: String,
    },

    /// All items before this one are processed.
    #[error(
        "{name}:{line}: {reason}; the lines before it are done (--no-key pass or drop goes on after such a line)"
    )]
    NoKey {
        name: String,
        line: u64,
        reason: Stray,
    },

    #[error(
        "{path}: compares URLs by version {got} of the rules, and this program knows versions up to {expected}; use a newer program",
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

    /// All items before this one are processed.
    #[error(
        "{name}:{line}: a quote in this CSV record is never closed, so that it takes in the rest of the file; the records before it are done; mend it, or use --key-field, which knows no quotes"
    )]
    OpenQuote { name: String, line: u64 },
}
