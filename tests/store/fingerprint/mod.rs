//! Stores of fingerprints.

mod algebra;
mod basics;
mod stopped_readers;
mod overtaken;
