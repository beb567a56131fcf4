//! Files with holes: what was never written takes no room, and is not gone through.
//!
//! - [`forged`]: small files that say they are large;
//! - [`memory`]: on a file system that is memory, where a look through a map gives a hole its room.
#![cfg(target_os = "linux")]

mod forged;
pub mod memory;
