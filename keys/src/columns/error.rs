//! Why a record has no such column.

use std::sync::Arc;

/// Why a record has no key, or its file no such column.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// A column without a name.
    #[error("the column is empty; give its name in the header, or its number")]
    Empty,
    /// No number of a column.
    #[error("columns are counted from 1")]
    Number,
    /// A column is given twice.
    #[error("{name}: is given twice")]
    Twice {
        /// Its name or number.
        name: String,
    },
    /// All names together are longer than a store can keep.
    #[error("all names together are longer than a store can keep; give numbers")]
    TooMany,
    /// A separator without a byte.
    #[error("the separator is empty")]
    NoSeparator,
    /// The header names no such column.
    #[error("its header has no column {name}")]
    NotInHeader {
        /// The column.
        name: String,
    },
    /// A column has a name, and no header has said where it is.
    #[error("no header has said where the column is")]
    NoHeader,
    /// The record is too short.
    #[error("it has no column {name}")]
    Missing {
        /// Its name or number.
        name: Arc<str>,
    },
}
