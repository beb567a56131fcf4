//! What a caller may choose: options, damage policy, templates, the division of memory.
//!
//! No file is opened here and no lock taken.

pub(crate) mod damage_policy;
pub(crate) mod memory_budget;
pub(crate) mod options;
pub(crate) mod template;
