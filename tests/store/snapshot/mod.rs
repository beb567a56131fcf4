//! Snapshots, deltas and their application: what is in a copy, what keeps it whole, what is refused.

mod cuts;
mod delta;
mod failing;
mod forged;
mod forged_segments;
mod live;
mod read_only;
mod refused;
mod segments;
mod setting;
mod twin;
mod whole;
mod wide;
