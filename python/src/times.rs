//! Times as Python has them: a `timedelta` or seconds, a `datetime` with a time zone or seconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The seconds from 1970 to the year 10000. Milliseconds are a larger number since 1978.
const END_OF_YEARS: f64 = 253_402_300_800.0;

/// Takes a length of time.
pub(crate) fn duration(option: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let Ok(seconds) = value.extract::<f64>() else {
        let expected = "a timedelta, or seconds";
        return value
            .extract()
            .map_err(|error| explained(value.py(), &error, option, expected));
    };
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("{option} {seconds}: {error}")))
}

/// Takes a point in time.
pub(crate) fn time(option: &str, value: &Bound<'_, PyAny>) -> PyResult<SystemTime> {
    let expected = "a datetime with a time zone, or seconds, since 1970";
    let Ok(seconds) = value.extract::<f64>() else {
        return value
            .extract()
            .map_err(|error| explained(value.py(), &error, option, expected));
    };
    if seconds >= END_OF_YEARS {
        return Err(PyValueError::new_err(format!(
            "{option} {seconds}: expected a time before the year 10000: seconds, not milliseconds"
        )));
    }
    let since = Duration::try_from_secs_f64(seconds);
    since
        .map(|since| UNIX_EPOCH + since)
        .map_err(|_| PyValueError::new_err(format!("{option} {seconds}: expected {expected}")))
}

/// Returns the seconds from 1970 to a time.
pub(crate) fn seconds_since_1970(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// Says what was expected; Python says what it could not subtract.
fn explained(py: Python<'_>, error: &PyErr, option: &str, expected: &str) -> PyErr {
    let message = format!("`{option}`: expected {expected}");
    match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(message),
        false => PyValueError::new_err(message),
    }
}
