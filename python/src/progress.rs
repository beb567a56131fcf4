//! Reports of progress in long calls.

use pyo3::prelude::*;

/// The watcher of a call: a callable, a bar, or none.
pub(crate) struct Progress<'py> {
    watcher: Option<Bound<'py, PyAny>>,
}

impl<'py> Progress<'py> {
    /// `progress` is what the caller gave: `None`, `True` or a callable.
    pub(crate) fn of(
        py: Python<'py>,
        progress: Option<&Bound<'py, PyAny>>,
        unit: &str,
    ) -> PyResult<Self> {
        let Some(progress) = progress.filter(|progress| !progress.is_none()) else {
            return Ok(Self { watcher: None });
        };
        let watch = py.import("everseen._progress")?.getattr("watch")?;
        let watcher = watch.call1((progress, unit))?;
        Ok(Self {
            watcher: (!watcher.is_none()).then_some(watcher),
        })
    }

    pub(crate) fn report(&self, done: u64, total: Option<u64>) -> PyResult<()> {
        if let Some(watcher) = &self.watcher {
            watcher.call_method1("report", (done, total))?;
        }
        Ok(())
    }

    pub(crate) fn close(&self) -> PyResult<()> {
        if let Some(watcher) = &self.watcher {
            watcher.call_method0("close")?;
        }
        Ok(())
    }

    pub(crate) fn watcher(&self) -> Option<Py<PyAny>> {
        self.watcher.clone().map(Bound::unbind)
    }
}

/// What a call that runs without Python asks now and then: whether to go on.
pub(crate) struct Watch {
    watcher: Option<Py<PyAny>>,
    pub(crate) raised: Option<PyErr>,
}

impl Watch {
    pub(crate) fn of(progress: &Progress<'_>) -> Self {
        Self {
            watcher: progress.watcher(),
            raised: None,
        }
    }

    /// Reports, and looks whether the user has interrupted the program.
    pub(crate) fn at(&mut self, done: u64, total: u64) -> std::ops::ControlFlow<()> {
        let outcome = Python::attach(|py| {
            if let Some(watcher) = &self.watcher {
                watcher.call_method1(py, "report", (done, Some(total)))?;
            }
            py.check_signals()
        });
        match outcome {
            Ok(()) => std::ops::ControlFlow::Continue(()),
            Err(raised) => {
                self.raised = Some(raised);
                std::ops::ControlFlow::Break(())
            }
        }
    }
}
