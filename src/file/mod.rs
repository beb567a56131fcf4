//! The filter file: header, superblocks, intents and pages. FORMAT.md defines the bytes.

mod commits;
pub(crate) mod copy;
pub(crate) mod delta;
mod delta_error;
pub(crate) mod directory_ref;
pub(crate) mod draft_mark;
mod error;
mod file_kind;
pub(crate) mod header;
pub(crate) mod intent;
pub(crate) mod journal;
pub(crate) mod label;
pub(crate) mod layer;
pub(crate) mod layout;
pub(crate) mod run_table;
pub(crate) mod section;
pub(crate) mod section_hashes;
pub(crate) mod side_file;
pub(crate) mod superblock;
mod superblock_parts;
#[cfg(test)]
mod tests;

pub use delta_error::DeltaError;
pub(crate) use directory_ref::DirectoryRef;
pub use error::{FormatError, SuperblockFault};
pub use file_kind::FileKind;
pub(crate) use header::Header;
pub(crate) use intent::Intent;
pub(crate) use journal::Journal;
pub(crate) use layer::Layer;
pub(crate) use run_table::{Run, RunTable};
pub(crate) use section::{Section, SectionKind};
pub use side_file::is_side_file;
pub(crate) use superblock::{CommitEntry, Superblock};
