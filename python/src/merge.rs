//! One store from several, or a smaller one from one.

use std::path::PathBuf;

use everseen::{Merge, MergeReport};
use pyo3::prelude::*;

use crate::copies::watched;
use crate::progress::Progress;
use crate::reports;

fn merged<'py>(
    py: Python<'py>,
    fpr: Option<f64>,
    progress: Option<&Bound<'py, PyAny>>,
    work: impl FnOnce(Merge<'_>) -> everseen::Result<MergeReport> + Send,
) -> PyResult<Bound<'py, PyAny>> {
    let progress = Progress::of(py, progress, "pages")?;
    let report = watched(py, &progress, |watch| {
        let merge = fpr.map_or(Merge::new(), |rate| Merge::new().fpr(rate));
        work(merge.watch(|done, total| watch.at(done, total)))
    })?;
    reports::merged(py, &report)
}

/// Make at `out` the union of stores that were made alike (see `like` of `open`): what is in one of them is in it.
///
/// Args:
///     out: A path where nothing is.
///     inputs: The stores. Others may have them open.
///     fpr: The bound on its rate, instead of that of the smallest input.
///     progress: As of `Store.insert_many`, in pages.
///
/// Raises:
///     MismatchError, WrongKindError: They don't fit.
///     OverfullError: The result would exceed its rate.
///
/// >>> with everseen.open("mon.ever", 1000) as mon, everseen.open("tue.ever", like="mon.ever") as tue:
/// ...     mon.insert("a"), tue.insert("b")
/// (True, True)
/// >>> everseen.union("week.ever", ["mon.ever", "tue.ever"]).keys
/// 2
#[pyfunction]
#[pyo3(signature = (out, inputs, *, fpr = None, progress = None))]
pub(crate) fn union<'py>(
    py: Python<'py>,
    out: PathBuf,
    inputs: Vec<PathBuf>,
    fpr: Option<f64>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    merged(py, fpr, progress, |merge| merge.union(&out, &inputs))
}

/// Make at `out` a store of the keys that are in all of several stores of kind fingerprint.
///
/// Arguments and exceptions are those of `union`. A key counts by its fingerprint: two that share one are one key.
///
/// >>> with everseen.open("left.ever") as left, everseen.open("right.ever", like="left.ever") as right:
/// ...     left.insert_many(["a", "b"]), right.insert_many(["b", "c"])
/// (array([ True,  True]), array([ True,  True]))
/// >>> everseen.intersect("both.ever", ["left.ever", "right.ever"]).keys
/// 1
#[pyfunction]
#[pyo3(signature = (out, inputs, *, fpr = None, progress = None))]
pub(crate) fn intersect<'py>(
    py: Python<'py>,
    out: PathBuf,
    inputs: Vec<PathBuf>,
    fpr: Option<f64>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    merged(py, fpr, progress, |merge| merge.intersection(&out, &inputs))
}

/// Make at `out` a store of the keys that are in the first of several stores and in no other; see `intersect`.
///
/// >>> with everseen.open("today.ever") as today, everseen.open("before.ever", like="today.ever") as before:
/// ...     today.insert_many(["a", "b"]), before.insert("b")
/// (array([ True,  True]), True)
/// >>> everseen.difference("fresh.ever", ["today.ever", "before.ever"]).keys
/// 1
#[pyfunction]
#[pyo3(signature = (out, inputs, *, fpr = None, progress = None))]
pub(crate) fn difference<'py>(
    py: Python<'py>,
    out: PathBuf,
    inputs: Vec<PathBuf>,
    fpr: Option<f64>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    merged(py, fpr, progress, |merge| merge.difference(&out, &inputs))
}

/// Make at `out` the store at `path` with `factor` times fewer pages.
///
/// >>> everseen.open("large.ever", 100_000, foldable=2).close()
/// 0
/// >>> everseen.fold("large.ever", "small.ever", 4).keys
/// 0
#[pyfunction]
#[pyo3(signature = (path, out, factor, *, fpr = None, progress = None))]
pub(crate) fn fold<'py>(
    py: Python<'py>,
    path: PathBuf,
    out: PathBuf,
    factor: u64,
    fpr: Option<f64>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    merged(py, fpr, progress, |merge| merge.fold(&path, &out, factor))
}
