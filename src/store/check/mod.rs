//! TODO check

pub(crate) mod fullness;
pub(crate) mod offline_repair;
pub(crate) mod repair;
pub(crate) mod stats;
pub(crate) mod verify;
