//! One key for all spellings of a URL.

use everseen_keys::rule::Part;
use everseen_keys::url;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors;
use crate::extractor;
use crate::keys::Key;

/// Turns URLs into one spelling: as the URL standard of WHATWG says, as browsers do, without the fragment.
///
/// Call it, or its method `normalize`, with a URL. A store doesn't know whether its keys are URLs: use the same
/// normalizer with it every time.
///
/// Args:
///     sort_query: Whether the parts of the query are sorted by their names.
///     drop_www: Whether `www.` at the beginning of the host goes.
///     rules: The version of the rules: 2, or 1 for a store whose keys an earlier version has made.
///
/// >>> everseen.Normalizer()("HTTPS://Example.ORG:443/a/../b?q=1#top")
/// 'https://example.org/b?q=1'
#[pyclass(frozen, module = "everseen")]
pub(crate) struct Normalizer {
    sort_query: bool,
    drop_www: bool,
    rules: u32,
}

impl Normalizer {
    /// It keeps memory from one URL to the next, so a call needs one of its own.
    fn worker(&self) -> url::Normalizer {
        let known = url::Normalizer::new().rules(self.rules);
        known
            .unwrap_or_default()
            .sort_query(self.sort_query)
            .drop_www(self.drop_www)
    }
}

fn normalized(py: Python<'_>, worker: &mut url::Normalizer, line: &Key) -> PyResult<String> {
    match worker.normalize(line.as_ref()) {
        Ok(url) => Ok(String::from_utf8_lossy(url).into_owned()),
        Err(reason) => Err(errors::own(py, "UrlError", format!("no URL: {reason}"))),
    }
}

#[pymethods]
impl Normalizer {
    #[new]
    #[pyo3(signature = (*, sort_query = false, drop_www = false, rules = url::RULES))]
    fn new(sort_query: bool, drop_www: bool, rules: u32) -> PyResult<Self> {
        if url::Normalizer::new().rules(rules).is_none() {
            let message = format!("rules {rules}: there are versions 1 to {}", url::RULES);
            return Err(PyValueError::new_err(message));
        }
        Ok(Self {
            sort_query,
            drop_www,
            rules,
        })
    }

    /// Return the normalizer of a store that the command created for lines that are URLs.
    ///
    /// Raises:
    ///     ValueError: The store's label doesn't say that its keys are URLs, or they are parts of records (`Extractor`).
    #[classmethod]
    fn for_store(_class: &Bound<'_, PyType>, store: &Bound<'_, PyAny>) -> PyResult<Self> {
        let rule = extractor::rule_of_store(store)?;
        match rule.url {
            Some(own)
                if rule.part == Part::Whole && rule.text.is_exact() && rule.pages.is_standard() =>
            {
                Ok(Self {
                    sort_query: own.sort_query,
                    drop_www: own.drop_www,
                    rules: own.rules,
                })
            }
            _ => Err(PyValueError::new_err(format!(
                "the store compares lines {rule}; Extractor.for_store does that"
            ))),
        }
    }

    /// Return the normalised URL.
    ///
    /// Raises:
    ///     UrlError: It is no URL.
    ///
    /// >>> everseen.Normalizer(sort_query=True).normalize("http://a.example/?b=2&a=1")
    /// 'http://a.example/?a=1&b=2'
    fn normalize(&self, py: Python<'_>, url: Key) -> PyResult<String> {
        normalized(py, &mut self.worker(), &url)
    }

    fn __call__(&self, py: Python<'_>, url: Key) -> PyResult<String> {
        self.normalize(py, url)
    }

    fn __repr__(&self) -> String {
        let python = |yes| if yes { "True" } else { "False" };
        format!(
            "Normalizer(sort_query={}, drop_www={}, rules={})",
            python(self.sort_query),
            python(self.drop_www),
            self.rules
        )
    }
}
