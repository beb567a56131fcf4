//! Stores of fingerprints.

mod algebra;
mod basics;
mod overtaken;
mod room;
mod stopped_readers;
