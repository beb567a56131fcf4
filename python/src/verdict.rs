//! The verdicts on claimed keys.

use pyo3::prelude::*;
use pyo3::types::PyType;

/// What `pickle` calls, and with what: `getattr(Verdict, "NEW")`.
type Named<'py> = (Bound<'py, PyAny>, (Bound<'py, PyType>, &'static str));

/// The outcome of claiming a key: `NEW`, `SEEN`, or `PENDING`.
///
/// It equals the number that `Store.claim_many` gives for it, and is true if it is `NEW`.
#[pyclass(frozen, eq, eq_int, module = "everseen")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The key was present.
    #[pyo3(name = "SEEN")]
    Seen = 0,
    /// The key was absent, and is present from now on.
    #[pyo3(name = "NEW")]
    New = 1,
    /// Another handle has claimed the key and not committed yet.
    #[pyo3(name = "PENDING")]
    Pending = 2,
}

#[pymethods]
impl Verdict {
    /// That of the number which it equals.
    fn __hash__(&self) -> isize {
        *self as isize
    }

    fn __bool__(&self) -> bool {
        matches!(self, Self::New)
    }

    /// A worker sends it to its parent.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Named<'py>> {
        let name = match slf.get() {
            Self::Seen => "SEEN",
            Self::New => "NEW",
            Self::Pending => "PENDING",
        };
        let getattr = slf.py().import("builtins")?.getattr("getattr")?;
        Ok((getattr, (slf.as_any().get_type(), name)))
    }
}

impl From<everseen::Verdict> for Verdict {
    fn from(verdict: everseen::Verdict) -> Self {
        match verdict {
            everseen::Verdict::New => Self::New,
            everseen::Verdict::Pending => Self::Pending,
            everseen::Verdict::Seen => Self::Seen,
        }
    }
}
