//! Counting stores: what is in them is inserts less removes, whatever happens (invariant I10).
//!
//! - [`multiset`]: random inserts and removes against an exact multiset; the long run is
//!   `EVERSEEN_OPERATIONS=10000000 cargo test --release --test store -- --nocapture counting::multiset`;
//! - [`cuts`]: power cuts and kills at each step of log, journal and checkpoint, on a recorded disk
//!   (`EVERSEEN_COUNTING_IMAGES`, `EVERSEEN_SEED`);
//! - [`deaths`]: processes killed while they share a store (`EVERSEEN_COUNTING_KILLS`);
//! - [`failing`]: each call to the disk fails once;
//! - [`reading`]: a reader whose pages a later writer goes on with;
//! - [`basics`]: what each call answers, and what is refused.
#![cfg(unix)]

mod basics;
mod cuts;
mod deaths;
mod failing;
mod model;
mod multiset;
mod reading;
mod session;

/// A number that the environment tells, or another.
fn number(name: &str, otherwise: u64) -> u64 {
    let told = std::env::var(name).ok();
    told.and_then(|told| told.parse().ok()).unwrap_or(otherwise)
}
