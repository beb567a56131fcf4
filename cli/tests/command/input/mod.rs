//! What is read: compressed files.

mod compressed;
