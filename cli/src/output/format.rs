//! Formats numbers for people.

use std::time::Duration;

use everseen::{Kind, Stats};

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A growing store with more bits a key than this holds next to nothing.
const MOST_BITS: f64 = 1000.0;

/// Formats `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1,000 keys`, `1 key`.
pub fn many(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), plural(number))
}

/// Returns the ending of a regular noun after a number.
pub fn plural(number: u64) -> &'static str {
    if number == 1 { "" } else { "s" }
}

/// Formats `1572864` as `1.5 MiB`.
pub fn bytes(number: u64) -> String {
    if number < 1024 {
        return format!("{number} bytes");
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 and above would be shown as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a rate with at most three significant digits: `1e-6`, `9.97e-7`. One that is below 1 gets more where it would
/// be shown as 1: `9.9999e-1`.
pub fn rate(rate: f64) -> String {
    if rate == 0.0 {
        return "0".to_owned();
    }
    let rounds_up = |text: &String| rate < 1.0 && text.ends_with("e0");
    // Seventeen digits tell any two numbers apart.
    let mut texts = (2..17).map(|digits| format!("{rate:.digits$e}"));
    let text = texts
        .find(|text| !rounds_up(text))
        .unwrap_or_else(|| rate.to_string());
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            format!("{mantissa}e{exponent}")
        }
        None => text,
    }
}

/// Returns the keys that a store's present size is meant for; `None` if its size follows its keys.
pub fn planned_for(stats: &Stats) -> Option<u64> {
    stats.capacity.filter(|_| stats.kind != Kind::Fingerprint)
}

/// Formats the size of a store per key: of the keys that it is for, or, where it grows, of those that it holds. Returns
/// `None` while a growing store holds so few that its fixed parts outweigh them.
pub fn bits_per_key(bytes: u64, capacity: Option<u64>, keys: u64) -> Option<String> {
    let bits = |keys: u64| bytes as f64 * 8.0 / keys as f64;
    match capacity {
        Some(capacity) => Some(format!("{:.1} bits a key when full", bits(capacity))),
        None if bits(keys) < MOST_BITS => Some(format!("{:.1} bits a key", bits(keys))),
        None => None,
    }
}

/// Returns how many of something arrived per second.
pub fn per_second(count: u64, time: Duration) -> u64 {
    // A time of zero makes the quotient large, and the cast saturates at the largest integer.
    (count as f64 / time.as_secs_f64().max(1e-9)).round() as u64
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats seconds since 1970 as `2001-09-09 01:46:40 UTC`.
pub fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years have 365.2425 days and begin in March, so that the leap day is the last; March of year 0 is 719,468 days
    // before 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Formats rows of cells in columns, aligned at their right.
pub fn table<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        text += &(cells.join("  ") + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(thousands(number), text);
        }
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn nouns() {
        let lines = [0, 1, 2, 1_000].map(|number| many(number, "line"));
        assert_eq!(lines, ["0 lines", "1 line", "2 lines", "1,000 lines"]);
        let keys = [0, 1, 1_000].map(|number| many(number, "key"));
        assert_eq!(keys, ["0 keys", "1 key", "1,000 keys"]);
    }

    #[test]
    fn sizes() {
        for (number, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (3 << 19, "1.5 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn sizes_per_key() {
        for (bytes, capacity, keys, text) in [
            (1000, Some(200), 3, Some("40.0 bits a key when full")),
            (1000, Some(1), 0, Some("8000.0 bits a key when full")),
            (1000, None, 100, Some("80.0 bits a key")),
            (4_324_800, None, 2, None),
            (131_072, None, 0, None),
        ] {
            assert_eq!(bits_per_key(bytes, capacity, keys).as_deref(), text);
        }
    }

    #[test]
    fn rates() {
        for (number, text) in [
            (0.0, "0"),
            (1e-6, "1e-6"),
            (9.97123e-7, "9.97e-7"),
            (0.5, "5e-1"),
            (0.9951, "9.95e-1"),
            (0.999999, "9.99999e-1"),
            (0.99999951, "9.999995e-1"),
            (1.0_f64.next_down(), "9.999999999999999e-1"),
            (1.0, "1e0"),
        ] {
            assert_eq!(rate(number), text);
        }
        assert_eq!(rate(f64::NAN), "NaN");
    }

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_000_000_000, "2001-09-09 01:46:40 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
        assert!(utc(u64::MAX).ends_with(" UTC"));
    }
}
