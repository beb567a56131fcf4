//! How wrong a store was, as it measures itself, against what is known exactly.

mod sections;
mod truth;
