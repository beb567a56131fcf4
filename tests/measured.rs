//! How wrong a store was, as it measures itself, against what is known exactly.

#[path = "support/numbers.rs"]
mod numbers;
mod support;

mod measured {
    mod sections;
    mod truth;
}
