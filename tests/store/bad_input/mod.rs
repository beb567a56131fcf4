//! Bad input, each with its exact error: files, logs, options, keys of the future, wrong paths.

mod acknowledged;
mod header;
#[cfg(unix)]
mod layout;
mod log_records;
mod logs;
mod options;
mod pages;
mod paths;
mod policies;
#[cfg(unix)]
mod spliced;
mod superblock;
mod tail;
mod use_after;
mod worn;
