//! TODO open

pub(crate) mod attach;
pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod handle;
pub(crate) mod like;
pub(crate) mod recover;
pub(crate) mod session;
