//! The process and the system: descriptors, signals, names of files that belong to a store.

pub(crate) mod at_start;
pub(crate) mod disk;
pub(crate) mod exit_code;
pub(crate) mod handle;
pub(crate) mod memory;
pub(crate) mod openers;
pub(crate) mod pipe;
pub(crate) mod shared_stream;
pub(crate) mod side_files;
pub(crate) mod signals;
