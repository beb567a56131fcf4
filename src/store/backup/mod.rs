//! Backup: copies of one moment while the store is used on, and deltas from one copy to the next.
//! May read the pages and write new files, and lay a delta on a copy; never writes the store itself.
//! Needs the store quiesced (`write::quiesce`): no checkpoint runs until it is copied.

pub(crate) mod apply;
pub(crate) mod copy_front;
pub(crate) mod delta_reader;
pub(crate) mod delta_writer;
pub(crate) mod progress;
pub(crate) mod snapshot;
