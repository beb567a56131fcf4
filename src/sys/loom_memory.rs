//! Regions and maps for the model checker: words of its own instead of memory maps.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Counter;

use super::Folder;
use super::simd::lanes::Lanes;
use super::sync::{AtomicU64, Ordering};

/// Runs `model` in every interleaving of its threads with at most `preemptions` preemptions (or as many as
/// `LOOM_MAX_PREEMPTIONS` says), and reports how many interleavings there were.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(preemptions));
    builder.max_branches = 20_000;
    let bound = builder.preemption_bound;
    let begun = std::time::Instant::now();
    let executions = Arc::new(Counter::new(0));
    let count = Arc::clone(&executions);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let test = std::thread::current();
    let test = test.name().unwrap_or("a model");
    let bound = bound.unwrap_or(preemptions);
    let (executions, elapsed) = (executions.load(Ordering::Relaxed), begun.elapsed());
    println!("{test}: {executions} executions with {bound} preemptions, {elapsed:.1?}");
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A region of words in one process, all initially zero.
#[derive(Debug)]
pub(crate) struct Region {
    words: Vec<AtomicU64>,
}

impl Region {
    pub(crate) fn private(words: u64) -> io::Result<Self> {
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { words })
    }

    pub(crate) fn sparse(words: u64) -> io::Result<Self> {
        Self::private(words)
    }

    pub(crate) fn create(_folder: &Folder, _path: &Path, _words: u64) -> io::Result<Self> {
        unsupported()
    }

    pub(crate) fn reserve(_folder: &Folder, _path: &Path, _words: u64) -> io::Result<Self> {
        unsupported()
    }

    pub(crate) fn fill(&self) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn open(_folder: &Folder, _path: &Path, _write: bool) -> io::Result<Self> {
        unsupported()
    }

    pub(crate) fn take_over(_folder: &Folder, _path: &Path) -> io::Result<Self> {
        unsupported()
    }

    pub(crate) fn populate(&self) {}

    pub(crate) fn populate_once(&self) {}

    pub(crate) fn file(&self) -> Option<&File> {
        None
    }

    pub(crate) fn is_read_only(&self) -> bool {
        false
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }
}

/// A map of a file; each clone is another map of it. Words that a test never changes are plain numbers, so that the
/// checker has as few places to consider as possible.
#[derive(Debug, Clone)]
pub struct Map {
    fixed: Arc<Vec<u64>>,
    changing: Arc<BTreeMap<usize, AtomicU64>>,
}

impl Map {
    /// Returns a map of these words. The words at the indices `changing` may be stored to.
    pub(crate) fn of(fixed: Vec<u64>, changing: impl IntoIterator<Item = usize>) -> Self {
        let changing = changing.into_iter();
        let changing = changing.map(|index| (index, AtomicU64::new(fixed[index])));
        Self {
            changing: Arc::new(changing.collect()),
            fixed: Arc::new(fixed),
        }
    }

    pub(crate) fn new(_file: &File, _offset: u64, _length: u64) -> io::Result<Self> {
        unsupported()
    }

    /// Stores a word as the kernel does for a write to the file: without any promise of order.
    pub(crate) fn store(&self, index: usize, value: u64) {
        match self.changing.get(&index) {
            Some(word) => word.store(value, Ordering::Relaxed),
            None => assert_eq!(self.fixed[index], value, "word {index} does not change"),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.fixed.len()
    }

    pub(crate) fn word(&self, index: usize) -> u64 {
        match self.changing.get(&index) {
            Some(word) => word.load(Ordering::Relaxed),
            None => self.fixed[index],
        }
    }

    pub(crate) fn words<const N: usize>(&self, from: usize) -> Words<'_, N> {
        Words { map: self, from }
    }

    pub(crate) fn parts<const N: usize>(&self) -> Parts<'_, N> {
        Parts(self)
    }

    pub(crate) fn spares_holes(&self) -> bool {
        false
    }

    pub(crate) fn copy(&self, from: usize, out: &mut [u8]) {
        for (index, bytes) in out.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&self.word(from + index).to_le_bytes());
        }
    }

    pub(crate) fn words_of_copy<const N: usize>(&self, from: usize, _copy: &[u8]) -> Words<'_, N> {
        self.words(from)
    }

    pub(crate) fn will_need(&self, _from: usize, _words: usize) {}

    pub(crate) fn drop_cached(&self, _from: usize, _words: usize) {}

    pub(crate) fn prefetch(&self, _index: usize) {}
}

/// Some adjacent words of a map.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a, const N: usize> {
    map: &'a Map,
    from: usize,
}

impl<const N: usize> Words<'_, N> {
    pub(crate) fn get(self, index: usize) -> u64 {
        self.map.word(self.from + index % N)
    }
}

/// All words of a map, in parts of `N`.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a, const N: usize>(&'a Map);

impl<const N: usize> Parts<'_, N> {
    pub(crate) fn gather<V: Lanes>(self, parts: V, indexes: V) -> V {
        let place = |lane| parts.lane(lane) as usize * N + indexes.lane(lane) as usize % N;
        V::each(|lane| self.0.word(place(lane)))
    }

    pub(crate) fn gather_bytes<V: Lanes>(self, parts: V, bytes: V) -> V {
        let word = |lane, byte| self.gather(parts, V::of(byte / 8)).lane(lane);
        V::each(|lane| {
            let byte = bytes.lane(lane).min(N as u64 * 8 - 8);
            let passed = byte % 8 * 8;
            word(lane, byte) >> passed | word(lane, byte + 7) << 1 << (63 - passed)
        })
    }

    pub(crate) fn prefetch<V: Lanes>(self, _parts: V, _indexes: V) {}
}
