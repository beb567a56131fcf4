//! The store file as bytes: header, superblocks, raw pages, and files that appear whole under their names.
//!
//! Guarantees that a superblock is durable when its write returns. Callers hold the writer lock or the checkpoint lock.

pub(crate) mod atomic_file;
pub(crate) mod delta_output;
pub(crate) mod delta_reader;
pub(crate) mod file_watch;
pub(crate) mod leftovers;
pub(crate) mod meta;
pub(crate) mod page_scan;
pub(crate) mod progress;
pub(crate) mod section_check;
pub(crate) mod section_set;
pub(crate) mod section_writer;
pub(crate) mod still_file;
pub(crate) mod store_file;
pub(crate) mod unfinished;
