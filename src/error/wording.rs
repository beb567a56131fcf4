//! What the texts of errors are made of.

use std::path::{Display, Path};

use crate::escaped::Escaped;

/// Shows the name of a file, which may have any character.
pub(super) fn shown(path: &Path) -> Escaped<Display<'_>> {
    Escaped(path.display())
}

/// Says how the moment of a store file lies to that of a log.
pub(super) fn relation(generation: u64, log_generation: u64) -> String {
    match generation.cmp(&log_generation) {
        std::cmp::Ordering::Less => format!("older, of generation {generation}"),
        std::cmp::Ordering::Equal => {
            "of the same generation, but not what the log was begun for".to_owned()
        }
        std::cmp::Ordering::Greater => format!("newer, of generation {generation}"),
    }
}

/// Describes in what two stores differ. Seeds are never disclosed.
pub(super) fn difference(field: &str, got: &str, expected: &str) -> String {
    match field {
        "seed" => "its seed differs".to_owned(),
        _ => Escaped(format_args!("its {field} is {got}, not {expected}")).to_string(),
    }
}

/// Says what to do where memory ran out.
pub(super) fn raise(limit: Option<u64>) -> String {
    let less = "grant less for buffers with the option `buffer`";
    match limit {
        Some(bytes) => format!(
            ", since this process may map no more than {} KiB (`ulimit -v`); raise that limit, or {less}",
            bytes / 1024
        ),
        None => format!("; end other programs, or {less}"),
    }
}

pub(super) fn holder(process: Option<u64>) -> String {
    process.map_or(String::new(), |process| format!(" (process {process})"))
}

/// Formats a rate with two digits, rounded up.
pub(super) fn rounded_up(rate: f64) -> String {
    if !(rate > 0.0 && rate < 1.0) {
        return format!("{rate}");
    }
    let exponent = rate.log10().floor();
    let digits = (rate / 10_f64.powf(exponent - 1.0)).ceil();
    format!("{}e{}", digits / 10.0, exponent)
}
