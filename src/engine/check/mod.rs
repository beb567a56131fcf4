//! Check: verifying and repairing a store, and the counts that a store keeps about itself.
//! This module may read everything. A repair may rewrite damaged pages, headers, superblocks and the ends of logs.
//! Verifying and repairing an open store hold checkpoints off; an offline repair needs the store to itself.

pub(crate) mod fullness;
pub(crate) mod keys_by_age;
mod log_repair;
pub(crate) mod measured;
pub(crate) mod offline_repair;
pub(crate) mod repair;
mod set_clock;
pub(crate) mod stats;
pub(crate) mod verify;
