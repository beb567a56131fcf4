//! The library as its users have it: one binary for all rigs that can share a process, since each takes seconds to build.
//!
//! A rig is a module, and its tests bear its name: `cargo test --test store kill::` runs one rig. Children that a rig
//! starts are this binary again. What needs a process of its own is a binary of its own beside this one.

mod support;

mod bad_input;
mod basics;
mod counting;
mod exempt;
mod existing;
mod faults;
mod fingerprint;
mod first_buffer;
mod forgetting;
mod format;
mod growth;
mod hash;
mod hostile_memory;
mod identity;
mod kill;
mod label;
mod measured;
mod merge;
mod neighbours;
#[cfg(unix)]
mod power_cut;
mod precheck;
mod processes;
mod rates;
mod readers;
mod sieve;
mod sizing;
mod snapshot;
mod sparse;
mod uncommitted;
