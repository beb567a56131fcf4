//! Stores of fingerprints.

mod algebra;
mod basics;
