//! TODO config

pub(crate) mod memory_budget;
pub(crate) mod options;
pub(crate) mod template;
