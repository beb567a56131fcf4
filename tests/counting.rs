//! Counting stores: what is in them is inserts less removes, whatever happens (invariant I10).
//!
//! - [`multiset`]: random inserts and removes against an exact multiset; the long run is
//!   `EVERSEEN_OPERATIONS=10000000 cargo test --release --test counting multiset -- --nocapture`;
//! - [`cuts`]: power cuts and kills at each step of log, journal and checkpoint, on a recorded disk
//!   (`EVERSEEN_COUNTING_IMAGES`, `EVERSEEN_SEED`);
//! - [`deaths`]: processes killed while they share a store (`EVERSEEN_COUNTING_KILLS`);
//! - [`failing`]: each call to the disk fails once;
//! - [`reading`]: a reader whose pages a later writer goes on with;
//! - [`basics`]: what each call answers, and what is refused.
#![cfg(unix)]

#[path = "support/numbers.rs"]
mod numbers;
#[path = "support/mod.rs"]
mod support;
#[path = "support/unsynced.rs"]
mod unsynced;

// The recorded disk of the power-cut rig, with a model of its own.
#[expect(dead_code, reason = "the rig that it belongs to uses more of it")]
#[path = "power_cut/disk.rs"]
mod disk;
#[path = "power_cut/fates.rs"]
mod fates;
#[path = "counting/model.rs"]
mod model;
#[path = "power_cut/site.rs"]
mod site;
#[expect(dead_code, reason = "the rig that it belongs to uses more of it")]
#[path = "power_cut/tape.rs"]
mod tape;

#[path = "counting/basics.rs"]
mod basics;
#[path = "counting/cuts.rs"]
mod cuts;
#[path = "counting/deaths.rs"]
mod deaths;
#[path = "counting/failing.rs"]
mod failing;
#[path = "counting/multiset.rs"]
mod multiset;
#[path = "counting/reading.rs"]
mod reading;
#[path = "counting/session.rs"]
mod session;

/// A number that the environment tells, or another.
fn number(name: &str, otherwise: u64) -> u64 {
    let told = std::env::var(name).ok();
    told.and_then(|told| told.parse().ok()).unwrap_or(otherwise)
}
