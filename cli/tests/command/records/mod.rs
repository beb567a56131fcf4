//! Keys that are a part of a record.

mod columns;
mod headers;
mod json;
