//! Stores of fingerprints.

mod basics;
mod overtaken;
