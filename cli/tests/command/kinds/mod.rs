//! What one kind of store does and no other.

mod counting;
mod created;
mod fingerprint;
#[cfg(unix)]
mod forgetting;
mod sets;
