//! What one kind of store does and no other.

mod counting;
mod fingerprint;
mod sets;
