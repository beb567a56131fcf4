//! Columns of Arrow, read where they lie.
//!
//! Any library offers them as capsules (`__arrow_c_array__`, `__arrow_c_stream__`) that hold the structures of Arrow's
//! C data interface. The crate `pyo3-arrow` takes them out of there. What a producer says of lengths of memory has to
//! be believed, since nothing else says it; everything else is checked here, row by row, before it is used.

mod column;
mod columns;
mod integers;
mod names;

pub(crate) use column::{BadColumn, Column};
pub(crate) use columns::Columns;
