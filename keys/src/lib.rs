//! What of a line is its key. A store takes bytes and knows nothing of this: the command and the Python package share it.
//!
//! A [`Rule`](rule::Rule) says how records become keys, and stands in the label of a store that the command made. An
//! [`Extractor`](extractor::Extractor) does what a rule says.
#![deny(missing_docs)]
#![warn(unreachable_pub)]

pub mod columns;
pub mod extractor;
pub mod joined;
pub mod json;
pub mod rule;
pub mod text;
pub mod url;
