//! TODO prefetch

pub(crate) mod readahead;
pub(crate) mod residency;
