//! Snapshots, deltas and their application: what is in a copy, what keeps it whole, what is refused.

#[path = "support/numbers.rs"]
#[expect(dead_code, reason = "the keys here are others")]
mod numbers;
mod support;

mod snapshot {
    mod cuts;
    mod delta;
    mod failing;
    mod forged;
    mod live;
    mod refused;
    mod setting;
    mod twin;
    mod whole;
}
