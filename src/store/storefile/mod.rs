//! TODO storefile

pub(crate) mod atomic_file;
pub(crate) mod meta;
pub(crate) mod page_scan;
pub(crate) mod store_file;
