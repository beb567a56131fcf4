//! Several values as one key.

use std::io::Write;

/// Appends one of several values to the key that they make together: its length in decimal, `:`, its bytes, `,` (a netstring).
///
/// ```
/// let mut key = Vec::new();
/// for value in ["a", "bc"] {
///     everseen_keys::joined::push_value(&mut key, value.as_bytes());
/// }
/// assert_eq!(key, b"1:a,2:bc,");
/// ```
pub fn push_value(key: &mut Vec<u8>, value: &[u8]) {
    // A vector takes what is written to it.
    let _ = write!(key, "{}:", value.len());
    key.extend_from_slice(value);
    key.push(b',');
}
