//! What the tests of bad input and of failing disks share.

#![expect(
    dead_code,
    reason = "each test file is a crate of its own and uses its part"
)]

pub mod counted;
pub mod fault;
pub mod files;
pub mod forge;
pub mod log;
pub mod share;
