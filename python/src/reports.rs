//! What the library reports, as the dataclasses of `python/everseen/_reports.py`.

use everseen::sizing::Interval;
use everseen::{
    Commit, Forgetting, KeysByAge, LayerOccupancy, LayerStats, Measured, MergeReport,
    RecoveryReport, RepairReport, RunStats, Stats, VerifyReport,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::times::seconds_since_1970;

/// Returns a new dictionary of some of a struct's fields, under their own names.
macro_rules! fields {
    ($py:expr, $source:expr, $($name:ident)*) => {{
        let fields = pyo3::types::PyDict::new($py);
        $(fields.set_item(stringify!($name), $source.$name)?;)*
        fields
    }};
}
pub(crate) use fields;

/// Returns a report of a class with these fields.
pub(crate) fn report<'py>(
    py: Python<'py>,
    class: &str,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("everseen._reports")?.getattr(class)?;
    class.call((), Some(fields))
}

pub(crate) fn commit<'py>(py: Python<'py>, commit: &Commit) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, commit, sequence);
    fields.set_item("writer", &commit.writer)?;
    fields.set_item("tag", PyBytes::new(py, &commit.tag))?;
    report(py, "Commit", &fields)
}

fn layer<'py>(py: Python<'py>, layer: &LayerStats) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, layer, capacity keys pages bits k fill fpr);
    report(py, "LayerStats", &fields)
}

fn run<'py>(py: Python<'py>, run: &RunStats) -> PyResult<Bound<'py, PyAny>> {
    report(py, "RunStats", &fields!(py, run, added removed pages due))
}

fn forgetting<'py>(py: Python<'py>, how: &Forgetting) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, how, steps);
    fields.set_item("after", how.window.as_secs_f64())?;
    fields.set_item("now", seconds_since_1970(how.now))?;
    fields.set_item("by", how.by.name())?;
    fields.set_item("latest", how.latest.map(seconds_since_1970))?;
    fields.set_item("earliest", how.earliest.map(seconds_since_1970))?;
    report(py, "Forgetting", &fields)
}

pub(crate) fn keys_by_age<'py>(py: Python<'py>, found: &KeysByAge) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, found, are_all_read);
    let steps = found.steps.iter().map(|step| {
        let fields = fields!(py, step, keys);
        fields.set_item("came", seconds_since_1970(step.came))?;
        fields.set_item("forgotten", seconds_since_1970(step.forgotten))?;
        report(py, "KeysOfStep", &fields)
    });
    fields.set_item("steps", list(py, steps)?)?;
    report(py, "KeysByAge", &fields)
}

pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(
        py, stats,
        capacity fpr_target fpr_now keys key_limit keys_left exempt bytes bits_per_key generation log_bytes
        buffer_bytes lock_taken transactional created
    );
    fields.set_item("kind", stats.kind.name())?;
    fields.set_item("hash", stats.hash.name())?;
    fields.set_item("lock_waited", stats.lock_waited.as_secs_f64())?;
    fields.set_item("store_id", PyBytes::new(py, &stats.store_id))?;
    let commits = stats.commits.iter().map(|one| commit(py, one));
    fields.set_item("commits", list(py, commits)?)?;
    let layers = stats.layers.iter().map(|one| layer(py, one));
    fields.set_item("layers", list(py, layers)?)?;
    let runs = stats.runs.iter().map(|one| run(py, one));
    fields.set_item("runs", list(py, runs)?)?;
    let forgetting = stats.forgetting.map(|how| forgetting(py, &how));
    fields.set_item("forgetting", forgetting.transpose()?)?;
    report(py, "Stats", &fields)
}

fn list<'py>(
    py: Python<'py>,
    items: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)
}

fn occupancy<'py>(py: Python<'py>, layer: &LayerOccupancy) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, layer, pages good bits_set keys fpr);
    report(py, "LayerOccupancy", &fields)
}

/// Returns damaged pages, of whatever report lists them.
macro_rules! damaged {
    ($py:expr, $pages:expr) => {{
        let pages = $pages.iter().map(|page| {
            let fields = fields!($py, page, layer page keys);
            report($py, "Damage", &fields)
        });
        list($py, pages)?
    }};
}

pub(crate) fn verified<'py>(py: Python<'py>, found: &VerifyReport) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, found, pages blank bits_set unlisted);
    let layers = found.layers.iter().map(|one| occupancy(py, one));
    fields.set_item("layers", list(py, layers)?)?;
    fields.set_item("damaged", damaged!(py, found.damaged))?;
    let segments = found.segments.iter().map(|page| {
        let fields = fields!(py, page, page keys);
        fields.set_item("reason", &page.reason)?;
        report(py, "SegmentDamage", &fields)
    });
    fields.set_item("segments", list(py, segments)?)?;
    let sections: Vec<_> = found.sections.iter().map(ToString::to_string).collect();
    fields.set_item("sections", sections)?;
    let superblock = found.superblock.as_ref().map(|fault| format!("{fault:?}"));
    fields.set_item("superblock", superblock)?;
    fields.set_item("keys_estimate", found.keys_estimate())?;
    fields.set_item("fpr", found.fpr())?;
    report(py, "VerifyReport", &fields)
}

pub(crate) fn repaired<'py>(py: Python<'py>, done: &RepairReport) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(
        py, done,
        header superblock rolled_back log_missing log_bytes exemptions sample unlisted blank
    );
    let set_aside = done.set_aside.iter();
    let set_aside: Vec<_> = set_aside.map(|log| log.as_os_str()).collect();
    fields.set_item("set_aside", set_aside)?;
    fields.set_item("pages", damaged!(py, done.pages))?;
    report(py, "RepairReport", &fields)
}

pub(crate) fn recovery<'py>(
    py: Python<'py>,
    found: &RecoveryReport,
) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, found, joined logs log_bytes keys dropped checkpoint);
    let superblock = found.superblock.as_ref().map(|fault| format!("{fault:?}"));
    fields.set_item("superblock", superblock)?;
    report(py, "RecoveryReport", &fields)
}

pub(crate) fn measured<'py>(py: Python<'py>, found: &Measured) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, found, one_in sampled false_positives);
    fields.set_item("lost", interval(py, found.lost)?)?;
    fields.set_item("rate", interval(py, found.rate)?)?;
    report(py, "Measured", &fields)
}

fn interval(py: Python<'_>, interval: Interval) -> PyResult<Bound<'_, PyAny>> {
    let fields = fields!(py, interval, estimate low high);
    report(py, "Interval", &fields)
}

pub(crate) fn merged<'py>(py: Python<'py>, done: &MergeReport) -> PyResult<Bound<'py, PyAny>> {
    let fields = fields!(py, done, keys fpr_now fpr capacity layers pages pages_read bytes);
    report(py, "MergeReport", &fields)
}
