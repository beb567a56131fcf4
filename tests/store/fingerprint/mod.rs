//! Stores of fingerprints.

mod basics;
mod stopped_readers;
