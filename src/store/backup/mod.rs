//! TODO backup

pub(crate) mod apply;
pub(crate) mod delta_reader;
pub(crate) mod delta_writer;
pub(crate) mod snapshot;
