//! What a caller may choose: options, damage policy, templates, the division of memory.
//!
//! This module opens no file and takes no lock.

pub(crate) mod buffer_growth;
pub(crate) mod create_options;
pub(crate) mod damage_policy;
pub(crate) mod filter_budget;
pub(crate) mod forget_by;
pub(crate) mod memory_budget;
pub(crate) mod open_options;
pub(crate) mod template;
