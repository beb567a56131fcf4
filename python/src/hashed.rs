//! Keys that are hashed in one place and looked up in another: `everseen.Hasher`, and sets of exact hashes.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher as StdHasher};
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

use everseen::Hash;
use everseen::hash::{HashedKey, KeyHasher};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::answers::Answer;
use crate::arrow::BadColumn;
use crate::hashes::Hashes;
use crate::keys::{Nulls, Source};
use crate::opening::{named, seed};

/// Turns keys into the 64 bits that a store with this algorithm and seed keeps of them.
///
/// For keys that are hashed in one place and looked up in another: `Store.insert_hashed` and `Store.contains_hashed`
/// take its hashes.
///
/// Args:
///     hash: `"highway"`, `"xxh3"` or `"murmur3"`.
///     seed: 32 bytes; those of the store.
///
/// >>> hasher = everseen.Hasher("highway", bytes(range(32)))
/// >>> hex(hasher.hash_many(["a"])[0])
/// '0x89f8e0c37e45b0b0'
#[pyclass(frozen, module = "everseen")]
pub(crate) struct Hasher {
    hash: Hash,
    seed: [u8; 32],
    /// In a box: it has to lie at a multiple of 32 bytes, and Python's objects lie at multiples of 16.
    hasher: Box<KeyHasher>,
}

#[pymethods]
impl Hasher {
    #[new]
    fn new(hash: &str, seed: Vec<u8>) -> PyResult<Self> {
        let (hash, seed) = (named::<Hash>(hash)?, self::seed(&seed)?);
        let hasher = Box::new(KeyHasher::new(hash, &seed));
        Ok(Self { hash, seed, hasher })
    }

    /// Return the hashes of keys, as a numpy array of `uint64`.
    ///
    /// Args:
    ///     keys: As of `Store.insert_many`. A null is an error.
    ///
    /// >>> everseen.Hasher("xxh3", bytes(32)).hash_many(["a", b"a"]).dtype
    /// dtype('uint64')
    fn hash_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let mut source = Source::of(keys)?;
        let mut hashed = Vec::with_capacity(source.total().unwrap_or(0));
        while let Some(piece) = source.next_piece(py, Nulls::Error, hashed.len())? {
            let outcome = py.detach(|| {
                let gathered = piece.gather()?;
                self.hasher.keys(gathered.keys.iter().copied(), &mut hashed);
                Ok(())
            });
            outcome.map_err(|bad: BadColumn| bad.raise(py))?;
            py.check_signals()?;
        }
        let bytes = hashed.iter().flat_map(|key| key.bits().to_le_bytes());
        of_numbers(py, bytes.collect(), "<u8")
    }

    /// Return the shard of each hash in a set that is divided into `shards` stores, as a numpy array of `uint32`.
    ///
    /// It depends on nothing else, and never changes.
    ///
    /// >>> everseen.Hasher.shards([0x89f8e0c37e45b0b0, 0], 64).tolist()
    /// [1, 47]
    #[staticmethod]
    #[pyo3(name = "shards")]
    fn shards_of<'py>(hashes: &Bound<'py, PyAny>, shards: u32) -> PyResult<Bound<'py, PyAny>> {
        let py = hashes.py();
        let shards = NonZero::new(shards)
            .ok_or_else(|| PyValueError::new_err("a set has one shard at least"))?;
        let mut bytes = Vec::new();
        each_piece(hashes, |hashes| {
            let shard = |hash: &u64| HashedKey::from_bits(*hash).shard(shards).to_le_bytes();
            bytes.extend(hashes.iter().flat_map(shard));
        })?;
        of_numbers(py, bytes, "<u4")
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Recipe<'py>> {
        let class = py.get_type::<Self>();
        Ok((class, (self.hash.name(), PyBytes::new(py, &self.seed))))
    }
}

/// The class, and what `Hasher.new` takes.
type Recipe<'py> = (
    Bound<'py, pyo3::types::PyType>,
    (&'static str, Bound<'py, PyBytes>),
);

/// Returns numbers, little-endian, as a numpy array of their own memory.
fn of_numbers<'py>(py: Python<'py>, bytes: Vec<u8>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    if bytes.is_empty() {
        return numpy.call_method1("zeros", (0, dtype));
    }
    numpy.call_method1("frombuffer", (PyByteArray::new(py, &bytes), dtype))
}

/// Runs `work` on all hashes, a piece at a time.
fn each_piece(hashes: &Bound<'_, PyAny>, mut work: impl FnMut(&[u64])) -> PyResult<()> {
    let py = hashes.py();
    let mut source = Hashes::of(hashes)?;
    let mut rows = 0;
    while let Some(piece) = source.next_piece(py, Nulls::Error, rows)? {
        work(&piece.hashes);
        rows += piece.rows;
        py.check_signals()?;
    }
    Ok(())
}

/// A set of pairs of hashes, in memory: with 128 bits of two seeds, two keys are never one.
#[pyclass(frozen, module = "everseen._everseen")]
pub(crate) struct Distinct {
    pairs: Mutex<HashSet<(u64, u64), BuildHasherDefault<AsTheyAre>>>,
}

/// The hashes are keyed already: no one can choose those that collide.
#[derive(Default)]
struct AsTheyAre(u64);

impl StdHasher for AsTheyAre {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[pymethods]
impl Distinct {
    #[new]
    fn new() -> Self {
        Self {
            pairs: Mutex::default(),
        }
    }

    /// Add pairs, and return for each whether it is new, as a numpy array of `bool`.
    fn insert_many<'py>(
        &self,
        first: &Bound<'py, PyAny>,
        second: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = first.py();
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        each_piece(first, |hashes| firsts.extend_from_slice(hashes))?;
        each_piece(second, |hashes| seconds.extend_from_slice(hashes))?;
        if firsts.len() != seconds.len() {
            return Err(PyValueError::new_err("two hashes make a pair"));
        }
        let new: Vec<u8> = py.detach(|| {
            let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
            let both = firsts.into_iter().zip(seconds);
            both.map(|pair| u8::from(pairs.insert(pair))).collect()
        });
        Answer::Bool.array(py, &new)
    }

    fn __len__(&self) -> usize {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.len()
    }
}
