//! The C library as programs see it: installed by `scripts/capi`, and used by programs that a C compiler makes.

mod abi;
mod examples;
mod header;
mod install;
mod page;
mod programs;
mod support;
