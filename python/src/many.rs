//! The methods of `everseen.Store` for many keys.

use everseen::hash::HashedKey;
use everseen::{BatchError, ClaimOptions};
use pyo3::prelude::*;

use crate::answers::Answer;
use crate::batch::Batch;
use crate::keys::Nulls;
use crate::store::Store;
use crate::verdict::Verdict;

/// One byte for each answer.
fn bytes(answers: Vec<bool>) -> impl Iterator<Item = u8> {
    answers.into_iter().map(u8::from)
}

/// Inserts keys, and appends the answers: of a batch that fails, those of the keys before the one that failed.
fn insert(
    store: &everseen::Store,
    keys: &[impl everseen::Key],
    answers: &mut Vec<u8>,
) -> everseen::Result<()> {
    let mut new = Vec::with_capacity(keys.len());
    let outcome = BatchError::append(store.insert_batch(keys), &mut new);
    answers.extend(bytes(new));
    outcome
}

/// Hashes of a hasher, in the library's form.
fn taken_up(hashes: &[u64]) -> Vec<HashedKey> {
    hashes.iter().copied().map(HashedKey::from_bits).collect()
}

#[pymethods]
impl Store {
    /// Insert keys in order, and return for each whether it was absent, as a numpy array of `bool`.
    ///
    /// Of equal keys, also within the batch, the first counts as absent. Many times as fast as `insert` for each.
    ///
    /// Args:
    ///     keys: An iterable of `str` and `bytes`; a numpy array of dtype `S`; or anything that offers an Arrow column
    ///         of strings or binary (`__arrow_c_stream__`, `__arrow_c_array__`: pyarrow, polars, pandas 3), which is
    ///         read where it lies. Numpy drops zeros at the end of an item of dtype `S`, and so does this.
    ///         Also dictionary-encoded, or categorical. Of several values: an iterable of tuples, or a tuple of columns.
    ///     columns: Names of columns, of which the values are the keys: `keys` is a table then (pyarrow, polars, pandas, a
    ///         `dict`). Integers count by their decimal digits. Several values are one key, as several of `--json-key` in
    ///         the command.
    ///     nulls: What a null (`None`) is: an `"error"`, or no key (`"skip"`) with the answer `False`.
    ///     progress: A callable that gets the keys done and the total, or `None` for it, now and then; or `True` for a
    ///         bar, if tqdm is installed.
    ///
    /// Raises:
    ///     NullKeyError, TypeError: A row is no key.
    ///     EverseenError: As `insert`.
    ///
    /// Whatever it raises, `KeyboardInterrupt` too, has an attribute `partial`: the answers for the keys that are done,
    /// from the first on. Those are in the store, and none of the others is.
    ///
    /// >>> store = everseen.open("many.ever")
    /// >>> store.insert_many(["a", "b", "a"])
    /// array([ True,  True, False])
    #[pyo3(signature = (keys, *, columns = None, nulls = "error", progress = None))]
    fn insert_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        columns: Option<&Bound<'py, PyAny>>,
        nulls: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Batch::new(&self.session, Answer::Bool, Nulls::of(nulls)?, progress);
        batch.of_keys((keys, columns), |store, keys, answers| {
            insert(store, keys, answers)
        })
    }

    /// Claim keys in order, and return a `Verdict` for each, as a numpy array of their numbers (`uint8`).
    ///
    /// Arguments and exceptions are those of `insert_many`.
    ///
    /// >>> store = everseen.open("claims.ever")
    /// >>> store.claim_many(["a", "a"]) == everseen.Verdict.NEW
    /// array([ True, False])
    #[pyo3(signature = (keys, *, columns = None, nulls = "error", progress = None))]
    fn claim_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        columns: Option<&Bound<'py, PyAny>>,
        nulls: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Batch::new(&self.session, Answer::Verdict, Nulls::of(nulls)?, progress);
        batch.of_keys((keys, columns), |store, keys, answers| {
            let mut verdicts = Vec::with_capacity(keys.len());
            let claimed = store.claim_batch(keys, ClaimOptions::new());
            let outcome = BatchError::append(claimed, &mut verdicts);
            let number = |verdict| Verdict::from(verdict) as u8;
            answers.extend(verdicts.into_iter().map(number));
            outcome
        })
    }

    /// Return for each key whether it is in the store, as a numpy array of `bool`.
    ///
    /// Arguments are those of `insert_many`.
    ///
    /// >>> store = everseen.open("lookup.ever")
    /// >>> store.insert("a")
    /// True
    /// >>> store.contains_many(["a", "b"])
    /// array([ True, False])
    #[pyo3(signature = (keys, *, columns = None, nulls = "error", progress = None))]
    fn contains_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        columns: Option<&Bound<'py, PyAny>>,
        nulls: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Batch::new(&self.session, Answer::Bool, Nulls::of(nulls)?, progress);
        batch.of_keys((keys, columns), |store, keys, answers| {
            answers.extend(bytes(store.contains_batch(keys)?));
            Ok(())
        })
    }

    /// Remove each key once, in order, and return for each whether it was present.
    ///
    /// Arguments and exceptions are those of `insert_many`; see `remove`.
    ///
    /// >>> store = everseen.open("removals.ever", 1000, kind="counting")
    /// >>> store.insert_many(["a", "b"])
    /// array([ True,  True])
    /// >>> store.remove_many(["a", "a"])
    /// array([ True, False])
    #[pyo3(signature = (keys, *, columns = None, nulls = "error", progress = None))]
    fn remove_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        columns: Option<&Bound<'py, PyAny>>,
        nulls: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Batch::new(&self.session, Answer::Bool, Nulls::of(nulls)?, progress);
        batch.of_keys((keys, columns), |store, keys, answers| {
            let mut removed = Vec::with_capacity(keys.len());
            let outcome = BatchError::append(store.remove_batch(keys), &mut removed);
            answers.extend(bytes(removed));
            outcome
        })
    }

    /// Insert keys by their hashes, and return for each whether it was absent.
    ///
    /// Args:
    ///     hashes: A numpy array or an Arrow column of 64-bit integers, or an iterable of `int`.
    ///     nulls, progress: As of `insert_many`.
    ///
    /// What it raises has `partial` as of `insert_many`.
    ///
    /// >>> import numpy
    /// >>> store = everseen.open("hashes.ever")
    /// >>> store.insert_hashes(numpy.array([1, 2, 1], dtype="u8"))
    /// array([ True,  True, False])
    #[pyo3(signature = (hashes, *, nulls = "error", progress = None))]
    fn insert_hashes<'py>(
        &self,
        hashes: &Bound<'py, PyAny>,
        nulls: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Batch::new(&self.session, Answer::Bool, Nulls::of(nulls)?, progress);
        batch.of_hashes(hashes, |store, hashes, answers| {
            insert(store, hashes, answers)
        })
    }

    /// Return for each hash whether it is in the store; see `insert_hashes`.
    ///
    /// >>> store = everseen.open("has_hashes.ever")
    /// >>> store.contains_hashes([1, 2])
    /// array([False, False])
    #[pyo3(signature = (hashes, *, nulls = "error", progress = None))]
    fn contains_hashes<'py>(
        &self,
        hashes: &Bound<'py, PyAny>,
        nulls: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Batch::new(&self.session, Answer::Bool, Nulls::of(nulls)?, progress);
        batch.of_hashes(hashes, |store, hashes, answers| {
            answers.extend(bytes(store.contains_batch(hashes)?));
            Ok(())
        })
    }

    /// Insert keys by the hashes that a `Hasher` with this store's algorithm and seed has made of them.
    ///
    /// The result is that of `insert_many` with the keys. Arguments and exceptions are those of `insert_hashes`.
    ///
    /// >>> store = everseen.open("hashed.ever", hash="xxh3", seed=bytes(32))
    /// >>> hashed = everseen.Hasher("xxh3", bytes(32)).hash_many(["a", "b", "a"])
    /// >>> store.insert_hashed(hashed), "b" in store
    /// (array([ True,  True, False]), True)
    #[pyo3(signature = (hashes, *, nulls = "error", progress = None))]
    fn insert_hashed<'py>(
        &self,
        hashes: &Bound<'py, PyAny>,
        nulls: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Batch::new(&self.session, Answer::Bool, Nulls::of(nulls)?, progress);
        batch.of_hashes(hashes, |store, hashes, answers| {
            insert(store, &taken_up(hashes), answers)
        })
    }

    /// Return for each hash of a `Hasher` whether its key is in the store; see `insert_hashed`.
    ///
    /// >>> store = everseen.open("has_hashed.ever", hash="xxh3", seed=bytes(32))
    /// >>> store.insert("a")
    /// True
    /// >>> store.contains_hashed(everseen.Hasher("xxh3", bytes(32)).hash_many(["a", "b"]))
    /// array([ True, False])
    #[pyo3(signature = (hashes, *, nulls = "error", progress = None))]
    fn contains_hashed<'py>(
        &self,
        hashes: &Bound<'py, PyAny>,
        nulls: &str,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = Batch::new(&self.session, Answer::Bool, Nulls::of(nulls)?, progress);
        batch.of_hashes(hashes, |store, hashes, answers| {
            answers.extend(bytes(store.contains_batch(&taken_up(hashes))?));
            Ok(())
        })
    }
}
