//! TODO read

pub(crate) mod batch;
pub(crate) mod count;
#[cfg(all(test, loom))]
pub(crate) mod loom;
pub(crate) mod point;
pub(crate) mod staged;
