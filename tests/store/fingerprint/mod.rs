//! Stores of fingerprints.

mod basics;
