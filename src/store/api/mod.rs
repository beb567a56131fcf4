//! TODO api

pub(crate) mod counting;
pub(crate) mod entry;
pub(crate) mod program_lock;
pub(crate) mod store;
