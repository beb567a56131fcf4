//! The append log: every operation since the last checkpoint. FORMAT.md, "The log", defines its bytes.

mod error;
pub(crate) mod file;
pub(crate) mod note;
pub(crate) mod reader;
pub(crate) mod record;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod writer;

pub use error::LogError;
pub(crate) use file::{LogBegin, LogFile, log_path};
pub(crate) use reader::LogReader;
pub(crate) use record::{Cut, Mark, Record, RecordKind};
pub(crate) use writer::{LogEnd, LogWriter};
