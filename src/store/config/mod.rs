//! TODO config

pub(crate) mod options;
