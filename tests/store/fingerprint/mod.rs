//! Stores of fingerprints.

mod algebra;
mod basics;
mod overtaken;
mod stopped_readers;
