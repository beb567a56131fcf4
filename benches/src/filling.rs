//! Stores that are filled with numbered keys.

use everseen::{Error, Store};

use crate::keys::hash;

/// Keys that are inserted together.
const BATCH: u64 = 1 << 16;
/// A run of a store in levels has a little more than so many times the keys of all younger ones: a checkpoint merges no two.
const RATIO: u64 = 9;

/// Inserts the keys of these numbers.
pub fn insert(store: &Store, numbers: std::ops::Range<u64>) -> Result<(), Error> {
    for begin in numbers.clone().step_by(BATCH as usize) {
        let end = numbers.end.min(begin + BATCH);
        let batch: Vec<u64> = (begin..end).map(hash).collect();
        store.insert_batch(&batch)?;
    }
    Ok(())
}

/// Inserts keys 0 to `keys` in such a way that `young` runs stand above the oldest one.
pub fn insert_in_runs(store: &Store, keys: u64, young: u32) -> Result<(), Error> {
    let mut begin = 0;
    for level in 1..=young {
        let end = keys - keys / RATIO.pow(level);
        insert(store, begin..end)?;
        match level {
            1 => store.checkpoint_full()?,
            _ => store.checkpoint()?,
        }
        begin = end;
    }
    insert(store, begin..keys)?;
    match young {
        0 => store.checkpoint_full(),
        _ => store.checkpoint(),
    }
}
