//! Check: verifying and repairing a store, and the numbers that it counts about itself.
//! May read everything; a repair may rewrite damaged pages, headers, superblocks and the ends of logs.
//! Verifying and repairing an open store hold checkpoints off; repairing one offline needs it alone.

pub(crate) mod fullness;
pub(crate) mod offline_repair;
pub(crate) mod repair;
pub(crate) mod stats;
pub(crate) mod verify;
