//! Keys that several threads find before the turn of their items, where that takes longer than all else that is done with
//! an item: in JSON and CSV, and of URLs.

use std::num::NonZero;
use std::sync::Mutex;
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

/// About how many bytes a thread takes at a time. Threads that share a core, or a processor with other processes, are not
/// equally fast, and the one that reads waits for all.
const TAKEN_AT_ONCE: usize = 32 << 10;

/// Finds keys of a block, and keeps them for their turn.
pub struct KeysAhead {
    threads: usize,
    /// Those of the threads, which learn from records as they go.
    extractors: Vec<Extractor>,
    /// Whether extractors may be told of a header, and are copied for each block.
    has_headers: bool,
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
            extractors: Vec::new(),
            has_headers: matches!(rule.part, Part::Csv(_)),
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
        if self.has_headers {
            self.extractors.clear();
        }
        if self.extractors.len() < parts {
            self.extractors.resize(parts, extractor.clone());
        }
        let items: Vec<_> = block.items().collect();
        self.keys.resize(items.len(), None);
        let length = (items.len() * TAKEN_AT_ONCE).div_ceil(block.bytes()).max(1);
        let pieces = items.chunks(length).zip(self.keys.chunks_mut(length));
        let pieces = &Mutex::new(pieces);
        // A thread that panics ends the command, by its scope.
        let next = || pieces.lock().ok().and_then(|mut pieces| pieces.next());
        let find = |extractor: &mut Extractor| {
            while let Some((items, keys)) = next() {
                for (item, key) in items.iter().zip(keys) {
                    *key = extractor.key(item).ok().map(|found| hasher.key(found));
                }
            }
        };
        let Some((own, others)) = self.extractors[..parts].split_first_mut() else {
            return;
        };
        thread::scope(|scope| {
            for extractor in others {
                let thread = thread::Builder::new().name("keys".to_owned());
                // Without that thread, the others have more to do.
                if thread.spawn_scoped(scope, || find(extractor)).is_err() {
                    break;
                }
            }
            find(own);
        });
    }

    /// Returns the key of an item of the last block, if it was found.
    pub fn key(&self, item: usize) -> Option<HashedKey> {
        self.keys.get(item).copied().flatten()
    }
}

#[cfg(test)]
impl KeysAhead {
    /// Uses so many threads, whatever the machine has.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }
}
