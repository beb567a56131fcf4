//! What is read: compressed files, and where lines stand.

mod compressed;
mod numbers;
