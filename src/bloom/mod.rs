//! Bloom filters in pages: bits or counters of a key all in one page, in layers of consecutive pages.
//!
//! A layer is mapped for reading. Its pages are checked on first use, and a page that a checkpoint is writing is read again
//! (a seqlock). Bytes: FORMAT.md, "Pages".

mod blocked_probes;
pub(crate) mod checkpoint;
pub(crate) mod chunk_writer;
pub(crate) mod counting_checkpoint;
pub(crate) mod counting_page;
pub(crate) mod counting_probe;
pub(crate) mod layer_checkpoint;
pub(crate) mod layer_copy;
pub(crate) mod layer_delta;
pub(crate) mod layer_merge;
pub(crate) mod layer_packing;
pub(crate) mod layer_pages;
#[cfg(all(test, loom))]
pub(crate) mod loom;
pub(crate) mod occupancy;
pub(crate) mod page;
pub(crate) mod probe;
pub(crate) mod probe_batch;
pub(crate) mod readahead;
pub(crate) mod repair;
mod uniform_probes;
pub(crate) mod united_layer;
pub(crate) mod verify;
