//! How often a store holds a key, as the one kind that counts does it.

pub(crate) use crate::bloom::counting_probe::{BufferedCount, CountLookup, KeyCount};
