//! TODO process

pub(crate) mod at_start;
pub(crate) mod handle;
pub(crate) mod side_files;
pub(crate) mod signals;
