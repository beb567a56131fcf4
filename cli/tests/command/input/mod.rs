//! What is read: compressed files, and where lines stand, how a store keeps what they mean.

mod compressed;
mod foreign_text;
mod given;
mod numbers;
mod reading;
