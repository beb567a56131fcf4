//! Segments: sorted fingerprints of a range, in pages packed to the brim, and what finds them.
//!
//! A store of fingerprints is a directory of segments, each written at once to room that nothing names. This room has
//! the parts of that which need no I/O: the way from a hash to its fingerprint, the merge of old fingerprints with new
//! ones, the bytes of segments and of the directory, and which pages of the file are free. docs/design.md,
//! "Fingerprints", says how a store uses them.

pub(crate) mod directory;
pub(crate) mod entry;
pub(crate) mod fault;
pub(crate) mod fences;
pub(crate) mod free_room;
pub(crate) mod image;
pub(crate) mod lookup;
#[cfg(all(test, loom))]
mod loom;
pub(crate) mod merge;
pub(crate) mod negative_filter;
pub(crate) mod packer;
pub(crate) mod page_index;
pub(crate) mod pages;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod reuse;
mod search;
pub(crate) mod sorted_run;
#[cfg(test)]
mod tests;
pub(crate) mod unplaced;
