//! *Have I ever seen this key?* For sets too large to keep in memory.
#![deny(missing_docs)]
#![warn(unreachable_pub)]

mod buffer;
mod codec;
mod error;
mod file;
pub mod hash;
mod log;
mod page;
pub mod sizing;
mod store;
mod sys;

pub use error::{Error, Result};
pub use file::{FormatError, SuperblockFault};
pub use hash::Hash;
pub use log::LogError;
pub use page::{Kind, UnknownKind};
pub use store::{
    Commit, DEFAULT_BUFFER, DEFAULT_FIRST_LAYER, DEFAULT_FPR, Damage, LEAST_BUFFER, LayerStats,
    Options, Stats, Store, Verdict, VerifyReport,
};
pub use sys::storage;
pub use sys::Map;
