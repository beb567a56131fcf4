//! Columns of Arrow, read where they lie.
//!
//! Any library offers them as capsules (`__arrow_c_array__`, `__arrow_c_stream__`) that hold the structures of Arrow's
//! C data interface. Only this folder has `unsafe`: it is pointers to what another library has allocated. What that
//! library says of lengths of memory has to be believed, since nothing else says it; everything else is checked.

mod abi;
mod capsule;
mod column;
mod columns;

pub(crate) use column::{BadColumn, Column};
pub(crate) use columns::Columns;
