//! The verdicts on claimed keys.

use pyo3::prelude::*;

/// The outcome of claiming a key: `NEW`, `SEEN`, or `PENDING`.
#[pyclass(frozen, eq, eq_int, hash, module = "everseen")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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

impl From<everseen::Verdict> for Verdict {
    fn from(verdict: everseen::Verdict) -> Self {
        match verdict {
            everseen::Verdict::New => Self::New,
            everseen::Verdict::Pending => Self::Pending,
            everseen::Verdict::Seen => Self::Seen,
        }
    }
}
