//! Backup: point-in-time copies of a store while it is in use, and deltas from one copy to the next.
//! This module may read the pages, write new files and apply a delta to a copy. It never writes the store itself. It
//! needs the store quiesced (`write::quiesce`): no checkpoint runs until the store is copied. A handle that only reads keeps
//! writers out instead (`held_still`).

pub(crate) mod apply;
pub(crate) mod copy_front;
pub(crate) mod delta_writer;
mod held_still;
pub(crate) mod snapshot;
