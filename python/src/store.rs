//! `everseen.Store`: an open store and its operations.

use std::path::PathBuf;

use everseen::ClaimOptions;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::batch;
use crate::copies;
use crate::hashes;
use crate::keys::{Key, StoreKey};
use crate::opening::{Opening, Reopening, on_damage};
use crate::reports;
use crate::session::Session;
use crate::times;
use crate::verdict::Verdict;
use crate::warnings;

/// Opens a store; `everseen.open` says how. `again`: another process goes on with a handle.
#[pyfunction]
#[pyo3(signature = (path, mode, options, *, again = false))]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    mode: &str,
    options: &Bound<'_, PyDict>,
    again: bool,
) -> PyResult<Store> {
    let opening = Opening::of(path, mode, options)?;
    Ok(Store {
        session: Session::begin(py, opening, again)?,
    })
}

/// An open store. `everseen.open` opens it.
///
/// Threads share a store: a call holds up neither Python nor each other. So do processes: each opens it, gets it by
/// pickle (as `multiprocessing` does), or inherits it from `os.fork` and has its own handle from the first use on.
///
/// Keys are `str` or `bytes`, or tuples of those and of integers; two with the same 64-bit keyed hash are one key. The store
/// can't list them.
#[pyclass(frozen, weakref, module = "everseen")]
pub(crate) struct Store {
    pub(crate) session: Session,
}

/// Single keys.
impl Store {
    #[inline]
    fn with_key<T: Send>(
        &self,
        py: Python<'_>,
        key: &Key,
        work: impl FnOnce(&everseen::Store, &[u8]) -> everseen::Result<T> + Send,
    ) -> PyResult<T> {
        let key: &[u8] = key.as_ref();
        self.session.call(py, |store| work(store, key))
    }
}

#[pymethods]
impl Store {
    /// Make sure that the key is in the store, and return whether it was absent: `True` the first time, ever.
    ///
    /// When it returns, the key outlives the process, and after the next `commit` a power loss too. In a transactional
    /// store both hold only from the commit on. For a share of new keys no larger than the false-positive rate it
    /// returns `False`.
    ///
    /// A `str` is the same key as its UTF-8 `bytes`.
    ///
    /// Raises:
    ///     FullError, TransactionTooLargeError, ReadOnlyError, NoSpaceError, FormatError: The key is not in the store.
    ///
    /// >>> store = everseen.open("insert.ever")
    /// >>> store.insert("key"), store.insert(b"key")
    /// (True, False)
    fn insert(&self, py: Python<'_>, key: StoreKey) -> PyResult<bool> {
        self.with_key(py, &key.0, |store, key| store.insert(key))
    }

    /// Insert the key, and return the full verdict.
    ///
    /// `Verdict.PENDING`, in a transactional store only: another handle has claimed the key and not committed. If it
    /// dies first, the key is absent again: claim it again to learn which.
    ///
    /// >>> store = everseen.open("claim.ever")
    /// >>> store.claim("key") == everseen.Verdict.NEW
    /// True
    fn claim(&self, py: Python<'_>, key: StoreKey) -> PyResult<Verdict> {
        Ok(self
            .with_key(py, &key.0, |store, key| store.claim(key))?
            .into())
    }

    /// Insert the key if it is absent, and return whether it was.
    ///
    /// In stores of kind counting `insert` counts a key each time; in others this is the same.
    ///
    /// >>> store = everseen.open("unique.ever", 1000, kind="counting")
    /// >>> store.insert_unique("key"), store.insert_unique("key"), store.count_estimate("key")
    /// (True, False, 1)
    fn insert_unique(&self, py: Python<'_>, key: StoreKey) -> PyResult<bool> {
        self.with_key(py, &key.0, |store, key| {
            let options = ClaimOptions::new().if_absent(true);
            let verdicts = store.claim_batch(&[key], options)?;
            Ok(verdicts == [everseen::Verdict::New])
        })
    }

    /// Return whether the key is in the store; so does `key in store`.
    ///
    /// `False` is certain. `True` is wrong for a share of absent keys no larger than the false-positive rate.
    ///
    /// >>> store = everseen.open("contains.ever")
    /// >>> store.contains("key"), "key" in store
    /// (False, False)
    fn contains(&self, py: Python<'_>, key: StoreKey) -> PyResult<bool> {
        self.with_key(py, &key.0, |store, key| store.contains(key))
    }

    fn __contains__(&self, py: Python<'_>, key: StoreKey) -> PyResult<bool> {
        self.contains(py, key)
    }

    /// Remove the key once, and return whether it was present. Only in a store of kind counting or fingerprint.
    ///
    /// Remove only keys that were inserted: removing one that merely looks seen takes others with it.
    ///
    /// Raises:
    ///     WrongKindError: The store is of another kind.
    ///
    /// >>> store = everseen.open("remove.ever", 1000, kind="counting")
    /// >>> store.insert("key"), store.remove("key"), store.remove("key")
    /// (True, True, False)
    fn remove(&self, py: Python<'_>, key: StoreKey) -> PyResult<bool> {
        self.with_key(py, &key.0, |store, key| store.remove(key))
    }

    /// Return how often the key is present, at most: its inserts minus its removes.
    ///
    /// 0 is certain. 15 means 15 or more. Only in a store of kind counting.
    ///
    /// >>> store = everseen.open("count.ever", 1000, kind="counting")
    /// >>> store.insert_many(["key", "key"])
    /// array([ True, False])
    /// >>> store.count_estimate("key")
    /// 2
    fn count_estimate(&self, py: Python<'_>, key: StoreKey) -> PyResult<u64> {
        self.with_key(py, &key.0, |store, key| store.count_estimate(key))
    }

    /// Insert a key by its hash, an integer of 64 bits that the caller has computed.
    ///
    /// It need not be evenly distributed, but equal hashes are equal keys. Signed or not, the 64 bits count.
    ///
    /// >>> store = everseen.open("hash.ever")
    /// >>> store.insert_hash(-1), store.insert_hash(2**64 - 1)
    /// (True, False)
    fn insert_hash(&self, py: Python<'_>, hash: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hash = hashes::of_int(hash)?;
        self.session.call(py, |store| store.insert(hash))
    }

    /// Return whether a key is in the store that was inserted by its hash.
    ///
    /// >>> store = everseen.open("has_hash.ever")
    /// >>> store.contains_hash(7)
    /// False
    fn contains_hash(&self, py: Python<'_>, hash: &Bound<'_, PyAny>) -> PyResult<bool> {
        let hash = hashes::of_int(hash)?;
        self.session.call(py, |store| store.contains(hash))
    }

    /// Make durable what returned before the call, and return the commit's sequence number.
    ///
    /// In a transactional store only the commit makes this handle's operations take effect. A `with` statement that ends
    /// without an exception commits the rest, under the tag that this writer has.
    ///
    /// Args:
    ///     tag: Up to 4096 bytes of the caller's own, stored atomically with the commit: a crawler's position, a
    ///         stream's offset. The next commit of the same writer replaces them. `last_commit` returns them.
    ///
    /// Raises:
    ///     NoSpaceError: Nothing has happened.
    ///     TagTooLargeError, TooManyWritersError: The tag can't be kept.
    ///
    /// >>> store = everseen.open("commit.ever", transactional=True)
    /// >>> store.commit(b"line 4711")
    /// 1
    /// >>> store.last_commit().tag
    /// b'line 4711'
    #[pyo3(signature = (tag = None))]
    fn commit(&self, py: Python<'_>, tag: Option<Key>) -> PyResult<u64> {
        let tag: &[u8] = tag.as_ref().map_or(&[], AsRef::as_ref);
        self.session.call(py, |store| store.commit_with(tag))
    }

    /// Return the last commit of a writer, of this handle's own unless another is named; `None` if there is none.
    ///
    /// >>> everseen.open("last.ever").last_commit() is None
    /// True
    #[pyo3(signature = (writer = None))]
    fn last_commit<'py>(
        &self,
        py: Python<'py>,
        writer: Option<&str>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let writer = writer.unwrap_or(&self.session.opening.writer);
        let last = self.session.call(py, |store| store.last_commit(writer))?;
        last.map(|commit| reports::commit(py, &commit)).transpose()
    }

    /// Go on to a later time in a store that forgets, for all handles; one that only reads does so for itself.
    ///
    /// An earlier time has no effect: time never runs backwards. Keys that are inserted from here on are of this time, and
    /// those that are too old by then are new.
    ///
    /// Args:
    ///     time: A `datetime` with a time zone, or seconds since 1970.
    ///
    /// Raises:
    ///     NeverForgetsError: The store keeps its keys for ever.
    ///
    /// >>> store = everseen.open("advanced.ever", forget_after=3600, at=1_800_000_000)
    /// >>> store.insert("key"), store.insert("key")
    /// (True, False)
    /// >>> store.advance_to(1_800_000_000 + 2 * 3600)
    /// >>> store.insert("key")
    /// True
    fn advance_to(&self, py: Python<'_>, time: &Bound<'_, PyAny>) -> PyResult<()> {
        let time = times::time("time", time)?;
        self.session.call(py, |store| store.advance_to(time))?;
        self.session.opening.advance_to(time);
        Ok(())
    }

    /// Move what is committed from log and buffer into the pages, and wait until it is there.
    ///
    /// Safety never requires it: a checkpoint runs by itself whenever the buffer is full. With `full`, all runs of a store
    /// of fingerprints are merged into one, which takes as long as writing the whole store. A store that forgets drops what
    /// is forgotten by now, even if no key came.
    ///
    /// >>> everseen.open("checkpoint.ever").checkpoint()
    #[pyo3(signature = (*, full = false))]
    fn checkpoint(&self, py: Python<'_>, full: bool) -> PyResult<()> {
        match full {
            true => self.session.call(py, everseen::Store::checkpoint_full),
            false => self.session.call(py, everseen::Store::checkpoint),
        }
    }

    /// Return how many keys came in each step, and when these are forgotten; `None` if the store keeps keys for ever.
    ///
    /// Reads 1,024 pages at most, 4 MiB: of larger stores the numbers are estimates.
    ///
    /// >>> store = everseen.open("ages.ever", forget_after=15 * 3600, at=1_800_000_000)
    /// >>> store.insert("key")
    /// True
    /// >>> [(step.came, step.forgotten, step.keys) for step in store.keys_by_age().steps]
    /// [(1800000000.0, 1800057600.0, 1)]
    fn keys_by_age<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.session.call(py, everseen::Store::keys_by_age)?;
        found
            .map(|found| reports::keys_by_age(py, &found))
            .transpose()
    }

    /// Return what the store knows about itself without reading its pages.
    ///
    /// >>> store = everseen.open("stats.ever", 1000)
    /// >>> store.stats().kind, store.stats().capacity
    /// ('bloom', 1000)
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = self.session.call(py, everseen::Store::stats)?;
        reports::stats(py, &stats)
    }

    /// Return how many keys the store holds, uncommitted ones included.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let fullness = self.session.call(py, everseen::Store::fullness)?;
        Ok(usize::try_from(fullness.keys)?)
    }

    /// A store is not "false" when it is empty: `if store:` asks whether there is one.
    fn __bool__(&self) -> bool {
        true
    }

    /// Return how often inserts were wrong so far, by a sample of the keys as of the last checkpoint.
    ///
    /// `None` if the store was created without a sample.
    ///
    /// >>> everseen.open("measured.ever").measured().false_positives
    /// 0
    fn measured<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let stats = self.session.call(py, everseen::Store::stats)?;
        stats
            .measured
            .map(|found| reports::measured(py, &found))
            .transpose()
    }

    /// Read everything, header and superblocks and every page, and list what is damaged.
    ///
    /// >>> everseen.open("verify.ever").verify().ok
    /// True
    #[pyo3(signature = (*, progress = None))]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        copies::verify(py, &self.session, progress)
    }

    /// Rewrite each damaged page as one that holds no key (`"never_seen"`) or every key (`"seen"`).
    ///
    /// Other handles may have the store open. For one that can't be opened there is `everseen.repair`.
    ///
    /// >>> everseen.open("repair.ever").repair("never_seen").is_whole
    /// True
    fn repair<'py>(&self, py: Python<'py>, policy: &str) -> PyResult<Bound<'py, PyAny>> {
        let policy = on_damage(policy)?;
        let report = self.session.call(py, |store| store.repair(policy))?;
        reports::repaired(py, &report)
    }

    /// Exempt keys that were never inserted but that the store takes for seen: they are absent from now on.
    ///
    /// Until they are inserted. Exempt many keys in one call, since each call takes a checkpoint.
    ///
    /// >>> everseen.open("exempt.ever").exempt(["a", "b"]).exempted
    /// 2
    #[pyo3(signature = (keys, *, columns = None))]
    fn exempt<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        columns: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        batch::exempt(&self.session, keys, columns)
    }

    /// Copy the store to `dest` while others go on using it, or write what has changed since a copy.
    ///
    /// The copy holds everything that returned before the call; of a transactional store, everything committed. Each
    /// page is read and checked. A store opened with `mode="r"` can be copied as long as nobody has it open for writing,
    /// with what a killed writer left in its log.
    ///
    /// Args:
    ///     dest: A path where nothing is.
    ///     since: An earlier snapshot. `dest` becomes a delta then, which `everseen.apply` brings into that copy.
    ///     progress: As of `insert_many`, in bytes.
    ///
    /// Raises:
    ///     AlreadyExistsError: There is something at `dest`.
    ///     LockedError: This handle only reads, and another process has the store open for writing.
    ///     DeltaError: `since` can't be the base of a delta.
    ///
    /// >>> store = everseen.open("snapshot.ever")
    /// >>> store.snapshot("backup.ever").keys
    /// 0
    #[pyo3(signature = (dest, *, since = None, progress = None))]
    fn snapshot<'py>(
        &self,
        py: Python<'py>,
        dest: PathBuf,
        since: Option<PathBuf>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match since {
            None => copies::snapshot(py, &self.session, &dest, progress),
            Some(previous) => copies::delta(py, &self.session, &dest, &previous, progress),
        }
    }

    /// Close the store: move everything that counts into the pages, and release it.
    ///
    /// In a transactional store, what this handle has not committed is dropped. Leaving a `with` statement without an
    /// exception commits it first. Closing the store once more does nothing. A program's end closes its stores, but
    /// reports errors less well than this does.
    ///
    /// Args:
    ///     discard: Dropping is what is wanted, and no `UncommittedWarning` says so.
    ///
    /// Returns:
    ///     How many keys were dropped.
    ///
    /// >>> store = everseen.open("close.ever", transactional=True)
    /// >>> store.insert("key")
    /// True
    /// >>> store.close(discard=True)
    /// 1
    /// >>> store.closed
    /// True
    #[pyo3(signature = (*, discard = false))]
    fn close(&self, py: Python<'_>, discard: bool) -> PyResult<u64> {
        let report = self.session.close(py)?;
        if !discard {
            warnings::on_close(py, &self.session.opening.path, report)?;
        }
        Ok(report.dropped)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        class: &Bound<'_, PyAny>,
        _raised: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let committed = match class.is_none() {
            true => self.session.commit_rest(py),
            false => Ok(()),
        };
        let closed = self.close(py, false);
        // What has kept it from committing says more than what was dropped for it.
        committed.and(closed)?;
        Ok(false)
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.session.is_closed()
    }

    /// The store's file, from the root.
    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // As `os.fsdecode` has it, so that every name survives.
        let path = self.session.opening.path.as_os_str();
        Ok(path.into_pyobject(py)?.into_any().unbind())
    }

    /// The name under which this handle commits.
    #[getter]
    fn writer(&self) -> &str {
        &self.session.opening.writer
    }

    /// The bytes of your own that the store was created with; `None` without any.
    #[getter]
    fn label<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let opened = self.session.current(py)?;
        Ok(opened.store.label().map(|label| PyBytes::new(py, label)))
    }

    /// How many keys this handle has inserted or removed since its last commit; 0 unless the store is transactional.
    #[getter]
    fn uncommitted(&self, py: Python<'_>) -> PyResult<u64> {
        self.session.call(py, |store| Ok(store.uncommitted()?.keys))
    }

    /// How many uncommitted new keys this handle may have; `None` if the store is not transactional.
    #[getter]
    fn transaction_quota(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let quota = self
            .session
            .call(py, |store| Ok(store.uncommitted()?.most))?;
        Ok((quota != u64::MAX).then_some(quota))
    }

    /// What opening has found, and done about it.
    #[getter]
    fn recovery<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.session.current(py)?;
        reports::recovery(py, opened.store.recovery())
    }

    /// The path and how to open it, for another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reopening<'py>)> {
        let opening = &self.session.opening;
        if opening.exclusive {
            return Err(PyTypeError::new_err(
                "an exclusive handle can't be pickled: it has the store to itself; open the store without `exclusive`",
            ));
        }
        let reopen = py.import("everseen._open")?.getattr("_reopen")?;
        let path = self.path(py)?;
        let options = opening.options_to_reopen(py)?;
        let advanced = opening.advanced_to();
        Ok((reopen, (path, opening.mode_to_reopen(), options, advanced)))
    }

    fn __repr__(&self) -> String {
        let state = if self.session.is_closed() {
            ", closed"
        } else {
            ""
        };
        format!("<everseen.Store {:?}{state}>", self.session.opening.path)
    }
}
