//! The keys of records, as the command takes them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use everseen_keys::columns::{Column, Separator};
use everseen_keys::extractor::{self, Stray};
use everseen_keys::json::Pointer;
use everseen_keys::rule::{CsvRule, FieldsRule, JsonRule, Kept, NoKey, Part, Rule, UrlRule};
use everseen_keys::text::TextRule;
use everseen_keys::url::RULES;
use everseen_keys::url::pages::PageRules;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt as _;
use pyo3::types::{PyBytes, PyDict, PyList, PyType};

use crate::errors;
use crate::keys::{Key, PIECE_KEYS};

/// Takes keys out of records: the same bytes as the command, for stores that both use.
///
/// Call it, or its method `key`, with a record. `keys` takes many of them. The arguments are options of the command, under
/// the same names (docs/guide/records.md); those for values may be a list.
///
/// Args:
///     json_key: Paths or JSON Pointers of values in JSON records.
///     csv_key: Names or numbers of columns of CSV. Names want a header: call `set_header` first.
///     key_field: Numbers of fields.
///     delimiter: What is between two columns of CSV.
///     field_separator: What is between two fields; white space by default.
///     trim, ignore_case, crlf: What of a key counts for nothing.
///     url, sort_query, drop_www: Whether keys are URLs, and how these are compared.
///
/// >>> everseen.Extractor(json_key="meta.url", url=True)('{"meta": {"url": "HTTP://Example.org"}}')
/// b'http://example.org/'
#[pyclass(frozen, module = "everseen")]
pub(crate) struct Extractor {
    rule: Rule,
    /// No Python runs while it is locked.
    worker: Mutex<extractor::Extractor>,
}

/// Bytes of records that are taken from an iterator before their keys are extracted.
const PIECE_BYTES: usize = 1 << 20;

/// The keys of a piece of records, one after the other.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    /// Where each ends; `None` for a record without one.
    ends: Vec<Option<usize>>,
}

/// Returns the rule of a store's label.
pub(crate) fn rule_of_store(store: &Bound<'_, PyAny>) -> PyResult<Rule> {
    let label: Option<Vec<u8>> = store.getattr("label")?.extract()?;
    let label = label.unwrap_or_default();
    match Kept::of_label(&label) {
        Kept::Rule(rule) if rule.url.is_none_or(|own| (1..=RULES).contains(&own.rules)) => Ok(rule),
        Kept::Nothing => Err(PyValueError::new_err(
            "the store's label does not say how records become keys: the command did not create it",
        )),
        _ => Err(PyValueError::new_err(format!(
            "this version of everseen does not know how the store's records become keys: {}",
            label.escape_ascii()
        ))),
    }
}

/// One value, or a list of them.
fn several<'py, T>(values: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match values {
        None => Ok(Vec::new()),
        Some(values) => match values.cast::<PyList>() {
            Ok(list) => list.iter().map(|value| value.extract()).collect(),
            Err(_) => Ok(vec![values.extract()?]),
        },
    }
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns the part of a record that the options name, which are all known.
fn part_of(given: &Bound<'_, PyDict>) -> PyResult<Part> {
    let get = |name: &str| given.get_item(name);
    let json: Vec<String> = several(get("json_key")?.as_ref())?;
    let csv: Vec<String> = several(get("csv_key")?.as_ref())?;
    let fields: Vec<usize> = several(get("key_field")?.as_ref())?;
    if [json.len(), csv.len(), fields.len()]
        .iter()
        .filter(|count| **count > 0)
        .count()
        > 1
    {
        return Err(PyTypeError::new_err(
            "give one of json_key, csv_key and key_field",
        ));
    }
    if !json.is_empty() {
        let pointers: Result<Vec<_>, _> = json.iter().map(|path| Pointer::parse(path)).collect();
        let rule = JsonRule::new(&pointers.map_err(value_error)?);
        return rule.map(Part::Json).map_err(value_error);
    }
    if !csv.is_empty() {
        let columns: Result<Vec<_>, _> = csv.iter().map(|column| Column::parse(column)).collect();
        let delimiter = match get("delimiter")? {
            None => ",".to_owned(),
            Some(text) => text.extract::<String>()?,
        };
        let [delimiter @ 1..=0x7F] = delimiter.as_bytes() else {
            return Err(PyValueError::new_err(
                "delimiter: expected one character of ASCII",
            ));
        };
        let rule = CsvRule::new(&columns.map_err(value_error)?, *delimiter);
        return rule.map(Part::Csv).map_err(value_error);
    }
    if fields.is_empty() {
        return Ok(Part::Whole);
    }
    let separator = match get("field_separator")? {
        None => Separator::Blank,
        Some(bytes) => Separator::Bytes(bytes.extract::<Key>()?.as_ref().to_vec()),
    };
    let rule = FieldsRule::new(&fields, separator);
    rule.map(Part::Fields).map_err(value_error)
}

/// The options of an extractor.
const OPTIONS: [&str; 11] = [
    "json_key",
    "csv_key",
    "key_field",
    "delimiter",
    "field_separator",
    "trim",
    "ignore_case",
    "crlf",
    "url",
    "sort_query",
    "drop_www",
];

impl Extractor {
    fn of_rule(rule: Rule) -> Self {
        let worker = Mutex::new(extractor::Extractor::new(&rule));
        Extractor { rule, worker }
    }

    fn worker(&self, py: Python<'_>) -> MutexGuard<'_, extractor::Extractor> {
        let worker = self.worker.lock_py_attached(py);
        worker.unwrap_or_else(PoisonError::into_inner)
    }

    /// Extracts the keys of a piece. Runs without Python.
    fn keys_of(&self, records: &[Key]) -> Keys {
        let worker = self.worker.lock();
        let mut worker = worker.unwrap_or_else(PoisonError::into_inner);
        let mut keys = Keys::default();
        for record in records {
            let key = worker.key(record.as_ref()).ok();
            if let Some(key) = key {
                keys.bytes.extend_from_slice(key);
            }
            keys.ends.push(key.is_some().then_some(keys.bytes.len()));
        }
        keys
    }
}

fn raised(py: Python<'_>, stray: &Stray) -> PyErr {
    let class = match stray.is_not_url() {
        true => "UrlError",
        false => "NoKeyError",
    };
    errors::own(py, class, stray.to_string())
}

#[pymethods]
impl Extractor {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let none = PyDict::new(py);
        let given = options.unwrap_or(&none);
        for name in given.keys() {
            let name: String = name.extract()?;
            if !OPTIONS.contains(&&*name) {
                let message = format!("Extractor has no argument {name}");
                return Err(PyTypeError::new_err(message));
            }
        }
        let is = |name: &str| -> PyResult<bool> {
            let value = given.get_item(name)?;
            value.map_or(Ok(false), |value| value.extract())
        };
        let part = part_of(given)?;
        let has = |name: &str| -> PyResult<bool> {
            Ok(given.get_item(name)?.is_some_and(|value| !value.is_none()))
        };
        for (name, is_given, needs, is_there) in [
            ("sort_query", is("sort_query")?, "url", is("url")?),
            ("drop_www", is("drop_www")?, "url", is("url")?),
            (
                "delimiter",
                has("delimiter")?,
                "csv_key",
                matches!(part, Part::Csv(_)),
            ),
            (
                "field_separator",
                has("field_separator")?,
                "key_field",
                matches!(part, Part::Fields(_)),
            ),
        ] {
            if is_given && !is_there {
                return Err(PyTypeError::new_err(format!("{name} needs {needs}")));
            }
        }
        if is("url")? && part.values() > 1 {
            return Err(PyValueError::new_err(
                "several values together are not a URL",
            ));
        }
        let url = UrlRule {
            sort_query: is("sort_query")?,
            drop_www: is("drop_www")?,
            ..UrlRule::default()
        };
        Ok(Self::of_rule(Rule {
            part,
            no_key: NoKey::default(),
            text: TextRule {
                crlf: is("crlf")?,
                trim: is("trim")?,
                ignore_case: is("ignore_case")?,
            },
            url: is("url")?.then_some(url),
            pages: PageRules::default(),
        }))
    }

    /// Return the extractor of a store that the command created, or that has the label of one.
    ///
    /// Raises:
    ///     ValueError: The store's label doesn't say how its records become keys.
    #[classmethod]
    fn for_store(_class: &Bound<'_, PyType>, store: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self::of_rule(rule_of_store(store)?))
    }

    /// The label that tells the command of it: `everseen.open(path, label=extractor.label)`.
    #[getter]
    fn label<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.rule.label())
    }

    /// Learn from the header of a CSV file where columns are that have names.
    ///
    /// Raises:
    ///     NoKeyError: The header hasn't one of them.
    fn set_header(&self, py: Python<'_>, header: Key) -> PyResult<()> {
        let known = self.worker(py).set_header(header.as_ref());
        known.map_err(|reason| errors::own(py, "NoKeyError", reason.to_string()))
    }

    /// Return the key of a record.
    ///
    /// Raises:
    ///     NoKeyError: The record has none.
    ///     UrlError: The key isn't a URL, and keys are to be.
    fn key<'py>(&self, py: Python<'py>, record: Key) -> PyResult<Bound<'py, PyBytes>> {
        let key = self
            .worker(py)
            .key(record.as_ref())
            .map(|key| PyBytes::new(py, key));
        key.map_err(|stray| raised(py, &stray))
    }

    fn __call__<'py>(&self, py: Python<'py>, record: Key) -> PyResult<Bound<'py, PyBytes>> {
        self.key(py, record)
    }

    /// Return the keys of many records; `None` for one that has none, or whose key isn't a URL.
    ///
    /// >>> everseen.Extractor(csv_key="2").keys(['1,"a,b"', "2"])
    /// [b'a,b', None]
    fn keys<'py>(
        &self,
        py: Python<'py>,
        records: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let mut records = records.try_iter()?;
        let mut found = Vec::new();
        let mut piece: Vec<Key> = Vec::new();
        loop {
            piece.clear();
            let mut bytes = 0;
            while bytes < PIECE_BYTES
                && piece.len() < PIECE_KEYS
                && let Some(record) = records.next()
            {
                let record: Key = record?.extract()?;
                bytes += record.as_ref().len();
                piece.push(record);
            }
            if piece.is_empty() {
                return Ok(found);
            }
            let keys = py.detach(|| self.keys_of(&piece));
            let mut start = 0;
            found.extend(keys.ends.iter().map(|end| {
                let end = (*end)?;
                let key = PyBytes::new(py, &keys.bytes[start..end]);
                start = end;
                Some(key)
            }));
            py.check_signals()?;
        }
    }

    /// Return the key that the command gives a record without one (`--no-key pass`), or with one that isn't a URL. A record
    /// with a key has that.
    fn own_key<'py>(&self, py: Python<'py>, record: Key) -> Bound<'py, PyBytes> {
        let mut worker = self.worker(py);
        let stray = match worker.key(record.as_ref()) {
            Ok(key) => return PyBytes::new(py, key),
            Err(stray) => stray,
        };
        PyBytes::new(py, worker.own_key(record.as_ref(), &stray))
    }

    fn __repr__(&self) -> String {
        format!("Extractor({})", self.rule)
    }
}
