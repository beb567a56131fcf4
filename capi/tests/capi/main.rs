//! The C library as programs see it.

mod header;
mod support;
