//! TODO checkpoint

pub(crate) mod bloom_pass;
pub(crate) mod counting_pass;
pub(crate) mod run;
pub(crate) mod section_rewrite;
