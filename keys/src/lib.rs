//! What of a line is its key. A store takes bytes and knows nothing of this: the command and the Python package share it.
#![deny(missing_docs)]
#![warn(unreachable_pub)]

pub mod url;
