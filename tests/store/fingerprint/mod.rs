//! Stores of fingerprints.

mod algebra;
mod basics;
mod closing;
mod overtaken;
mod room;
mod shared;
mod stopped_readers;
