//! A store is its file, not its name: links, renames, removals, foreign files and modes.
//!
//! Two handles of one process exclude each other as those of two processes do, so most of this needs one process.
#![cfg(unix)]

mod drafts;
mod empty_files;
mod foreign;
mod leftovers;
mod links;
mod modes;
mod moments;
mod moved;
mod old_builds;
