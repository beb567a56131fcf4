//! From two of keys, rate, bits a key and size to the others.

use everseen::sizing::Plan;
use everseen::{Error, Kind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::OrRaise;
use crate::opening::named;
use crate::reports::report;

/// Plan a filter: from two of keys, rate, bits per key and size to the others.
///
/// Args:
///     capacity: Keys.
///     fpr: False-positive rate.
///     bits_per_key: Filter bits per key; with `capacity` or `size`.
///     size: Bytes of pages.
///     kind: `"bloom"` or `"counting"`.
///     foldable: How often it can be folded in half.
///
/// Raises:
///     SizingError: There is no such filter.
///
/// >>> everseen.plan(1_000_000, 1e-4).k
/// 13
#[pyfunction]
#[pyo3(signature = (capacity = None, fpr = None, bits_per_key = None, size = None, kind = "bloom", foldable = 0))]
pub(crate) fn plan<'py>(
    py: Python<'py>,
    capacity: Option<u64>,
    fpr: Option<f64>,
    bits_per_key: Option<f64>,
    size: Option<u64>,
    kind: &str,
    foldable: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let kind = named::<Kind>(kind)?;
    if kind == Kind::Fingerprint {
        return Err(PyValueError::new_err(
            "a store of kind fingerprint has no fixed size; `everseen plan --kind fingerprint` shows what it takes",
        ));
    }
    let cell = kind.cell();
    let planned = match (capacity, fpr, bits_per_key, size) {
        (Some(keys), Some(rate), None, None) => cell.plan_for_rate(keys, rate),
        (Some(keys), None, Some(bits), None) => cell.plan_for_bits_per_key(keys, bits),
        (Some(keys), None, None, Some(size)) => cell.plan_for_size(keys, size),
        (None, Some(rate), None, Some(size)) => cell.plan_for_rate_and_size(rate, size),
        (None, None, Some(bits), Some(size)) => cell.plan_for_bits_and_size(bits, size),
        _ => {
            return Err(PyTypeError::new_err(
                "give two of capacity, fpr, bits_per_key and size, but not both fpr and bits_per_key",
            ));
        }
    };
    let planned = planned.and_then(|plan| plan.foldable(foldable));
    let plan = planned.map_err(Error::from).or_raise(py)?;
    described(py, &plan)
}

fn described<'py>(py: Python<'py>, plan: &Plan) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("capacity", plan.capacity)?;
    fields.set_item("fpr", plan.fpr)?;
    fields.set_item("bits", plan.bits())?;
    fields.set_item("bits_per_key", plan.bits_per_key())?;
    fields.set_item("k", plan.probes)?;
    fields.set_item("pages", plan.pages)?;
    fields.set_item("bytes", plan.bytes())?;
    fields.set_item("ideal_bits_per_key", plan.ideal_bits_per_key())?;
    report(py, "Plan", &fields)
}
