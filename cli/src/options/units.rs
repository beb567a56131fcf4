//! Numbers as users type them: counts (`10M`, `1e7`, `50_000_000`), sizes (`64M`, `1GiB`), durations (`500ms`, `5m`),
//! rates, seeds.
//!
//! Counts and sizes are parsed in whole-number arithmetic: `1e7` is exactly ten million, and a number that doesn't fit
//! is refused.

mod calendar;

use std::time::Duration;

pub use calendar::time;

/// Adding a longer time to an instant could overflow.
const LONGEST_TIME: Duration = Duration::from_secs(366 * 24 * 3600);
/// What a store may forget after.
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);
const LONGEST_WINDOW: Duration = Duration::from_secs(1000 * 366 * 86_400);

/// Parses a number of things: digits with optional `_`, fraction, exponent, and a decimal suffix K, M, G (or B), T.
pub fn count(text: &str) -> Result<u64, String> {
    let (number, suffix) = split(text);
    let power = match suffix.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 3,
        "m" => 6,
        "g" | "b" => 9,
        "t" => 12,
        _ => return Err(format!("unknown suffix `{suffix}`: use K, M, G or T")),
    };
    let decimal = Decimal::parse(number)?;
    decimal
        .times_power_of_ten(power)
        .filter(|(_, exact)| *exact)
        .map(|(whole, _)| whole)
        .ok_or_else(|| "expected a whole number below 2^64, such as 1000000, 10M or 1e7".to_owned())
}

/// Parses a count of at least one.
pub fn positive_count(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("expected at least 1".to_owned()),
        n => Ok(n),
    }
}

/// Parses a number of bytes, with the suffixes of GNU tools: K or KiB is 1024, KB is 1000. Fractions of a byte are
/// dropped.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, suffix) = split(text);
    let unit: u64 = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => {
            return Err(format!(
                "unknown suffix `{suffix}`: use K, M, G, T, MiB or MB"
            ));
        }
    };
    Decimal::parse(number)?
        .times(unit)
        .and_then(|decimal| decimal.times_power_of_ten(0))
        .map(|(whole, _)| whole)
        .ok_or_else(|| "expected a number of bytes below 2^64, such as 64M or 1GiB".to_owned())
}

/// Parses a size of at least one byte.
pub fn positive_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("expected at least one byte".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Parses a time: seconds, or with the suffix ms, s, m or h. Fractions of a millisecond are dropped.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, suffix) = split(text);
    let unit: u64 = match suffix.to_ascii_lowercase().as_str() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("unknown suffix `{suffix}`: use ms, s, m or h")),
    };
    Decimal::parse(number)?
        .times(unit)
        .and_then(|decimal| decimal.times_power_of_ten(0))
        .map(|(whole, _)| Duration::from_millis(whole))
        .filter(|time| *time <= LONGEST_TIME)
        .ok_or_else(|| "expected a time of at most a year, such as 500ms, 30s or 5m".to_owned())
}

/// Parses a time that may be long, with the suffix s, m, h, d or w.
pub fn long_duration(text: &str) -> Result<Duration, String> {
    let (number, suffix) = split(text);
    // A store has its window for ever, and a month taken for minutes, or days for seconds, forgets everything at once.
    match suffix {
        "" => {
            return Err(format!(
                "{number} of what? Say {number}s, m (minutes), h, d or w"
            ));
        }
        "M" => return Err("`M` is no month: minutes are m, and 30d are thirty days".to_owned()),
        _ => {}
    }
    let seconds: u64 = match suffix.to_ascii_lowercase().as_str() {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(format!("unknown suffix `{suffix}`: use s, m, h, d or w")),
    };
    Decimal::parse(number)?
        .times(seconds * 1000)
        .and_then(|decimal| decimal.times_power_of_ten(0))
        .map(|(whole, _)| Duration::from_millis(whole))
        .filter(|time| (SHORTEST_WINDOW..=LONGEST_WINDOW).contains(time))
        .ok_or_else(|| "expected a second to a thousand years, such as 90s, 1h or 30d".to_owned())
}

/// Returns a time as a user may type it, in the largest unit of which it is a multiple.
pub fn typed(time: Duration) -> String {
    let units = [(604_800, "w"), (86_400, "d"), (3600, "h"), (60, "m")];
    let (seconds, part) = (time.as_secs(), time.subsec_millis());
    if part > 0 {
        return format!("{}s", time.as_secs_f64());
    }
    let unit = units
        .into_iter()
        .find(|(unit, _)| seconds.is_multiple_of(*unit));
    let (unit, suffix) = unit.unwrap_or((1, "s"));
    format!("{}{suffix}", seconds / unit)
}

/// Parses a rate between 0 and 1, both excluded.
pub fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| *rate > 0.0 && *rate < 1.0)
        .ok_or_else(|| "expected a rate between 0 and 1, such as 1e-6 or 0.001".to_owned())
}

/// Parses a number of bits per key, possibly with a fraction.
pub fn bits(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|bits: &f64| *bits > 0.0 && bits.is_finite())
        .ok_or_else(|| "expected a number of bits above 0, such as 10 or 28.8".to_owned())
}

/// Parses a hash seed: 64 hexadecimal digits.
pub fn seed(text: &str) -> Result<[u8; 32], String> {
    let wrong = || "expected 64 hexadecimal digits".to_owned();
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()
        .filter(|digits: &Vec<u8>| digits.len() == 64)
        .ok_or_else(wrong)?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect();
    bytes.try_into().map_err(|_| wrong())
}

/// Splits `64MiB` into its number and its suffix.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    (number.trim_end(), &text[number.len()..])
}

/// `digits × 10^exponent`, exactly.
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a number");
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().map_err(|_| wrong())?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut decimal = Decimal {
            digits: 0,
            exponent: exponent.into(),
        };
        let mut any = false;
        for (c, in_fraction) in whole
            .chars()
            .map(|c| (c, false))
            .chain(fraction.chars().map(|c| (c, true)))
        {
            if c == '_' && any {
                continue;
            }
            let digit = c.to_digit(10).ok_or_else(wrong)?;
            any = true;
            decimal.digits = decimal
                .digits
                .checked_mul(10)
                .and_then(|digits| digits.checked_add(digit.into()))
                .ok_or_else(|| format!("`{text}` has too many digits"))?;
            decimal.exponent -= i32::from(in_fraction);
        }
        if any { Ok(decimal) } else { Err(wrong()) }
    }

    fn times(self, factor: u64) -> Option<Self> {
        let digits = self.digits.checked_mul(factor.into())?;
        Some(Decimal { digits, ..self })
    }

    /// Returns the whole part of the product, and whether the product has no other part; `None` if it is too large.
    fn times_power_of_ten(self, power: i32) -> Option<(u64, bool)> {
        let exponent = self.exponent + power;
        let Some(magnitude) = 10u128.checked_pow(exponent.unsigned_abs()) else {
            return (self.digits == 0 || exponent < 0).then_some((0, self.digits == 0));
        };
        let (whole, exact) = if exponent < 0 {
            (
                self.digits / magnitude,
                self.digits.is_multiple_of(magnitude),
            )
        } else {
            (self.digits.checked_mul(magnitude)?, true)
        };
        Some((u64::try_from(whole).ok()?, exact))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        for (text, expected) in [
            ("0", 0),
            ("1000000", 1_000_000),
            ("50_000_000", 50_000_000),
            ("10M", 10_000_000),
            ("10m", 10_000_000),
            ("10 M", 10_000_000),
            ("1e7", 10_000_000),
            ("1E+7", 10_000_000),
            ("1.5e9", 1_500_000_000),
            ("2.5G", 2_500_000_000),
            ("1B", 1_000_000_000),
            ("1200e-2", 12),
            (".5k", 500),
            ("18446744073709551615", u64::MAX),
            ("0e999", 0),
        ] {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("0", 0),
            ("30", 30_000),
            ("30s", 30_000),
            ("0.5", 500),
            ("500ms", 500),
            ("1.9ms", 1),
            ("5 m", 300_000),
            ("2min", 120_000),
            ("1.5h", 5_400_000),
            ("8784h", 366 * 24 * 3_600_000),
        ] {
            let expected = Duration::from_millis(expected);
            assert_eq!(duration(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "-1", "1x", "8785h", "1e30"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn long_durations() {
        for (text, seconds, typed_again) in [
            ("1s", 1, "1s"),
            ("90s", 90, "90s"),
            ("120s", 120, "2m"),
            ("36h", 129_600, "36h"),
            ("30d", 2_592_000, "30d"),
            ("1.5d", 129_600, "36h"),
            ("28d", 2_419_200, "4w"),
        ] {
            let expected = Duration::from_secs(seconds);
            assert_eq!(long_duration(text), Ok(expected), "{text}");
            assert_eq!(typed(expected), typed_again);
        }
        assert_eq!(typed(Duration::from_millis(1500)), "1.5s");
        for text in [
            "", "30", "30M", "0.5s", "1y", "1ms", "53000w", "-1d", "1e30",
        ] {
            assert!(long_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wrong_counts() {
        for text in [
            "",
            " ",
            "M",
            "-1",
            "+1",
            "1.5",
            "1e-3",
            "1e",
            "e7",
            "1e99999",
            "1e400",
            "1e-400",
            "10X",
            "10MM",
            "10MiB",
            "1__",
            "_1",
            "18446744073709551616",
            "0x10",
            "1,000",
            "nan",
            "inf",
            "1e7M8",
            "٣",
            "1.2.3",
            "99999999999999999999999999999999999999999999",
        ] {
            // A trailing underscore is harmless.
            assert_eq!(count(text).is_ok(), text == "1__", "{text}");
        }
        assert!(positive_count("0").is_err());
        assert_eq!(positive_count("1"), Ok(1));
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("4096", 4096),
            ("64M", 64 << 20),
            ("64MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("64MB", 64_000_000),
            ("1GiB", 1 << 30),
            ("1.5G", 3 << 29),
            ("0.3K", 307),
            ("1e3", 1000),
            ("1e3K", 1_024_000),
            ("16777215T", 16_777_215 << 40),
            ("12B", 12),
        ] {
            assert_eq!(size(text), Ok(expected), "{text}");
        }
        for text in ["", "M", "-1M", "1X", "16777216T", "1e30", "1 2", "1MiBB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_and_bits() {
        assert_eq!(rate("1e-6"), Ok(1e-6));
        assert_eq!(bits("28.8"), Ok(28.8));
        for text in ["0", "1", "-0.1", "nan", "inf", "", "one"] {
            assert!(rate(text).is_err(), "{text}");
        }
        for text in ["0", "-1", "nan", "inf", ""] {
            assert!(bits(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seeds() {
        let text = "00ff".repeat(16);
        assert_eq!(
            seed(&text),
            Ok(std::array::from_fn(|i| if i % 2 == 0 { 0 } else { 0xff }))
        );
        for text in [
            "",
            "00",
            &"0".repeat(63),
            &"0".repeat(65),
            &"g0".repeat(32),
            &"é0".repeat(32),
        ] {
            assert!(seed(text).is_err(), "{text}");
        }
    }
}
