//! Snapshots, deltas and their application: what is in a copy, what keeps it whole, what is refused.

mod cuts;
mod delta;
mod failing;
mod forged;
mod live;
mod refused;
mod setting;
mod twin;
mod whole;
