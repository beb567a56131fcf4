//! Snapshots, deltas, and what is done to a store that no handle has open.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use everseen::{Error, OpenOptions, Progress as Bytes, Store};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{OrRaise, raised};
use crate::opening::{StoreOptions, on_damage};
use crate::progress::{Progress, Watch};
use crate::reports::{self, fields, report};
use crate::session::Session;

/// Runs a call that asks a [`Watch`] whether to go on, and raises what the watch has raised.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: &Progress<'_>,
    work: impl FnOnce(&mut Watch) -> everseen::Result<T> + Send,
) -> PyResult<T> {
    let mut watch = Watch::of(progress);
    let outcome = py.detach(|| work(&mut watch));
    let closed = progress.close();
    match (outcome, watch.raised) {
        (Err(Error::Cancelled), Some(raised)) => Err(raised),
        (Err(error), _) => Err(raised(py, &error)),
        (Ok(done), _) => closed.map(|()| done),
    }
}

/// Runs a call of a store that tells its progress in bytes.
fn watched_by<T: Send>(
    py: Python<'_>,
    session: &Session,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Store, &mut dyn FnMut(Bytes) -> ControlFlow<()>) -> everseen::Result<T> + Send,
) -> PyResult<T> {
    let opened = session.current(py)?;
    let store = &opened.store;
    let progress = Progress::of(py, progress, "B")?;
    watched(py, &progress, |watch| {
        work(store, &mut |bytes: Bytes| watch.at(bytes.done, bytes.total))
    })
}

pub(crate) fn snapshot<'py>(
    py: Python<'py>,
    session: &Session,
    dest: &Path,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let done = watched_by(py, session, progress, |store, watch| {
        store.snapshot_watched(dest, watch)
    })?;
    let fields = fields!(py, done, generation keys pages bytes shared);
    report(py, "SnapshotReport", &fields)
}

pub(crate) fn verify<'py>(
    py: Python<'py>,
    session: &Session,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let report = watched_by(py, session, progress, |store, watch| {
        store.verify_watched(watch)
    })?;
    reports::verified(py, &report)
}

pub(crate) fn delta<'py>(
    py: Python<'py>,
    session: &Session,
    dest: &Path,
    previous: &Path,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let done = watched_by(py, session, progress, |store, watch| {
        store.snapshot_since_watched(dest, previous, watch)
    })?;
    let fields = PyDict::new(py);
    fields.set_item("from_generation", done.from)?;
    fields.set_item("to_generation", done.to)?;
    fields.set_item("pages", done.pages)?;
    fields.set_item("bytes", done.bytes)?;
    report(py, "DeltaReport", &fields)
}

/// Apply a delta, from `Store.snapshot(..., since=...)`, to the copy that it is for.
///
/// No handle may have the copy open. A copy that is up to date stays as it is; a call that was interrupted is done
/// again.
///
/// Raises:
///     DeltaError: The delta is damaged, or for another copy.
///     LockedError: The copy is open.
///
/// >>> store = everseen.open("source.ever")
/// >>> _ = store.snapshot("copy.ever")
/// >>> store.insert("key")
/// True
/// >>> _ = store.snapshot("change.delta", since="copy.ever")
/// >>> everseen.apply("change.delta", "copy.ever").keys
/// 1
#[pyfunction]
#[pyo3(signature = (delta, copy, *, progress = None))]
pub(crate) fn apply<'py>(
    py: Python<'py>,
    delta: PathBuf,
    copy: PathBuf,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let progress = Progress::of(py, progress, "B")?;
    let done = watched(py, &progress, |watch| {
        let at = |bytes: Bytes| watch.at(bytes.done, bytes.total);
        everseen::apply_delta(&delta, &copy, &OpenOptions::new(), at)
    })?;
    let fields = fields!(py, done, pages keys resumed);
    fields.set_item("from_generation", done.from)?;
    fields.set_item("to_generation", done.to)?;
    report(py, "ApplyReport", &fields)
}

/// Repairs a store that can't be opened.
#[pyfunction]
#[pyo3(name = "_repair")]
pub(crate) fn repair<'py>(
    py: Python<'py>,
    path: PathBuf,
    policy: &str,
    given: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let (policy, options) = (on_damage(policy)?, StoreOptions::of(given)?);
    let done = py
        .detach(|| everseen::repair(&path, policy, &options.open))
        .or_raise(py)?;
    reports::repaired(py, &done)
}
