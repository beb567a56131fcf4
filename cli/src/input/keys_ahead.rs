//! Keys that several threads find before the turn of their items, where that takes longer than all else that is done with
//! an item: in JSON and CSV, and of URLs.

use std::num::NonZero;
use std::thread;

use everseen::hash::{HashedKey, KeyHasher};
use everseen_keys::extractor::Extractor;
use everseen_keys::rule::{Part, Rule};

use crate::input::record_blocks::Block;
use crate::process::memory;

/// The most threads that find keys, the one that reads among them. The others of this process want processors, too.
const MOST_THREADS: usize = 4;

/// Fewer bytes are no work for a thread of their own: starting one takes some 20 µs, and reading them as JSON 60.
const LEAST_PART: usize = 64 << 10;

/// Finds keys of a block, and keeps them for their turn.
pub struct KeysAhead {
    threads: usize,
    /// The key of each item that has one.
    keys: Vec<Option<HashedKey>>,
}

impl KeysAhead {
    pub fn of(rule: &Rule) -> Self {
        let takes_long = matches!(rule.part, Part::Json(_) | Part::Csv(_)) || rule.url.is_some();
        let processors = match takes_long && !memory::is_tight() {
            true => thread::available_parallelism().map_or(1, NonZero::get),
            false => 1,
        };
        KeysAhead {
            threads: processors.min(MOST_THREADS),
            keys: Vec::new(),
        }
    }

    /// Finds the keys of a block's items, unless one thread does that as soon.
    pub fn find(&mut self, block: &Block, hasher: &KeyHasher, extractor: &Extractor) {
        self.keys.clear();
        let parts = (block.bytes() / LEAST_PART).min(self.threads);
        if parts < 2 {
            return;
        }
        let items: Vec<_> = block.items().collect();
        self.keys.resize(items.len(), None);
        let length = items.len().div_ceil(parts);
        let mut parts = items.chunks(length).zip(self.keys.chunks_mut(length));
        let own = parts.next();
        thread::scope(|scope| {
            for (items, keys) in parts {
                let extractor = extractor.clone();
                let work = move || find(items, keys, hasher, extractor);
                let thread = thread::Builder::new().name("keys".to_owned());
                // Without that thread, its keys are found in their turn.
                if thread.spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            if let Some((items, keys)) = own {
                find(items, keys, hasher, extractor.clone());
            }
        });
    }

    /// Returns the key of an item of the last block, if it was found.
    pub fn key(&self, item: usize) -> Option<HashedKey> {
        self.keys.get(item).copied().flatten()
    }
}

fn find(
    items: &[&[u8]],
    keys: &mut [Option<HashedKey>],
    hasher: &KeyHasher,
    mut extractor: Extractor,
) {
    for (item, key) in items.iter().zip(keys) {
        *key = extractor.key(item).ok().map(|found| hasher.key(found));
    }
}

#[cfg(test)]
impl KeysAhead {
    /// Uses so many threads, whatever the machine has.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }
}
