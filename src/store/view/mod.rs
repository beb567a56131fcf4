//! TODO view

pub(crate) mod section_set;
