//! The write buffer: the keys since the last checkpoint, in memory.

mod table;

pub(crate) use table::{COMMITTED, Claim, FIRST_TRANSACTION, LAST_TRANSACTION, Slot, Table};
