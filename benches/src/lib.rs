//! What the measurements share: keys, processes that start together, medians and percentiles, the
//! machine.
//!
//! Each measurement is a program of its own (`src/bin`). All its variants run in one run, round by
//! round in turn, so that whatever else the machine does meets them alike.

pub mod cgroup;
pub mod filling;
pub mod histogram;
pub mod keys;
pub mod machine;
pub mod mapped;
pub mod numbers;
pub mod piped;
pub mod raw;
pub mod scratch;
pub mod worker;
