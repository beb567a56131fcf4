//! What the rigs share: keys and chance, disks that fail, count, record, check or don't wait, and the bytes of FORMAT.md.

pub mod ages;
pub mod counted;
pub mod fault;
pub mod files;
pub mod forge;
pub mod log;
pub mod numbers;
pub mod patience;
#[cfg(unix)]
pub mod recorded;
pub mod repeating;
pub mod runs;
pub mod segments;
pub mod share;
pub mod unsynced;
