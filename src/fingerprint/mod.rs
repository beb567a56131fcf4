//! Sorted sets of fingerprints: pages packed to the brim (Elias-Fano), segments of pages, and their directory.
//!
//! A store of fingerprints is a directory of segments, each written at once to room that nothing names (shadow paging).
//! docs/design.md, "Fingerprints", says how a store uses them.

pub(crate) mod aligned_writer;
mod carried_segments;
pub(crate) mod changed_segments;
pub(crate) mod changes;
pub(crate) mod checkpoint;
pub(crate) mod compaction;
pub(crate) mod directory_file;
mod fingerprint_list;
pub(crate) mod log_checkpoint;
pub(crate) mod map_segments;
mod negative_filter_size;
pub(crate) mod negative_filter_update;
pub(crate) mod net_list;
pub(crate) mod page;
pub(crate) mod pending_filter;
pub(crate) mod probe;
pub(crate) mod readahead;
pub(crate) mod room_share;
pub(crate) mod runs;
pub(crate) mod segment;
pub(crate) mod segment_delta;
mod segment_io;
pub(crate) mod segment_reader;
mod segment_sweep;
pub(crate) mod set_algebra;
pub(crate) mod verify;
