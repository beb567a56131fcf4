//! Stores of fingerprints.

mod algebra;
mod basics;
mod carried;
mod closing;
mod drains;
mod full_merges;
mod levels;
mod overtaken;
mod room;
mod runs;
mod shared;
mod small_sessions;
pub(crate) mod steps;
mod stopped_readers;
