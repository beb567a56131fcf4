//! Everseen for C: the functions of `everseen.h`.
//!
//! `border.rs` alone follows C's pointers; it says why that holds. All else is safe Rust over the library, in the order of
//! the header, which cbindgen makes of these files.

// What a program reads first.
pub mod version;

pub mod code;

mod border;
mod failure;
mod layout;

pub mod options;

pub mod open;

// The text of a failure.
pub mod handle;

pub mod key;

pub mod batch;

pub mod commit;

pub mod whole;
