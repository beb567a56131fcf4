//! Points in time as users type them: RFC 3339, a date alone, or seconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The seconds from 1970 to the year 10000. So many milliseconds had passed in 1978, and who means those gives a larger number.
const END_OF_YEARS: Duration = Duration::from_secs(253_402_300_800);

/// Parses a time since 1970.
pub fn time(text: &str) -> Result<SystemTime, String> {
    if let Some(date) = undashed(text) {
        return Err(format!(
            "{text} seconds are a day of 1970: is {date} meant?"
        ));
    }
    let parsed = match text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        true => seconds(text),
        false => date_and_time(text),
    };
    if parsed.is_some_and(|passed| passed >= END_OF_YEARS) {
        return Err("expected a time before the year 10000: seconds, not milliseconds".to_owned());
    }
    parsed
        .and_then(|passed| UNIX_EPOCH.checked_add(passed))
        .ok_or_else(|| {
            "expected a time since 1970, such as 2026-11-27T13:30:00Z, 2026-11-27 or 1795786200"
                .to_owned()
        })
}

/// Returns the date that eight digits are without dashes.
fn undashed(text: &str) -> Option<String> {
    if text.len() != 8 || number(text).is_none() {
        return None;
    }
    let date = format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]);
    days_of(&date).map(|_| date)
}

/// Parses seconds, perhaps with a fraction, down to milliseconds.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let whole = Duration::from_secs(number(whole)?);
    whole.checked_add(Duration::from_millis(thousandths(fraction)?))
}

/// Parses `2026-11-27T13:30:00.5+01:00`, or a part of it that begins with the date.
fn date_and_time(text: &str) -> Option<Duration> {
    let (date, rest) = match text.split_at_checked(10)? {
        (date, "") => (date, "T00:00:00Z"),
        parts => parts,
    };
    let days = days_of(date)?;
    let clock = rest.strip_prefix(['T', 't', ' '])?;
    let zone = clock.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = clock.split_at(zone);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':')?;
    // A leap second is the last one of its day.
    let is_clock = hour < 24 && minute < 60 && second <= 60;
    let passed = days * 86_400 + hour * 3600 + minute * 60 + second.min(59);
    let (ahead, behind) = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => (0, 0),
        ("+", offset) => (minutes(offset)?, 0),
        (_, offset) => (0, minutes(offset)?),
    };
    let utc = (passed + behind * 60).checked_sub(ahead * 60)?;
    let utc = Duration::from_secs(utc) + Duration::from_millis(thousandths(fraction)?);
    is_clock.then_some(utc)
}

/// Parses the offset of a time zone.
fn minutes(text: &str) -> Option<u64> {
    let [hours, minutes] = numbers(text, ':')?;
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

/// Returns the days from 1970 to a date.
fn days_of(text: &str) -> Option<u64> {
    let [year, month, day] = numbers(text, '-')?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1970..10_000).contains(&year) || !(1..=longest).contains(&day) {
        return None;
    }
    // Years that begin in March end with their leap day; March of year 0 is 719,468 days before 1970.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    (before + (153 * month + 2) / 5 + day - 1).checked_sub(719_468)
}

/// Parses as many numbers as there are between separators.
fn numbers<const N: usize>(text: &str, separator: char) -> Option<[u64; N]> {
    let parts: Option<Vec<u64>> = text.split(separator).map(number).collect();
    parts?.try_into().ok()
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Returns how many thousandths the digits behind a point are.
fn thousandths(digits: &str) -> Option<u64> {
    number(digits)?;
    let mut three = digits.to_owned();
    three.push_str("00");
    number(&three[..3])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::format::utc;

    fn milliseconds(text: &str) -> Option<u128> {
        let found = time(text).ok()?.duration_since(UNIX_EPOCH);
        Some(found.unwrap().as_millis())
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("0", 0),
            ("1795786200", 1_795_786_200_000),
            ("1.5", 1500),
            ("1.0019", 1001),
            ("1970-01-01", 0),
            ("2026-11-27", 1_795_737_600_000),
            ("2026-11-27T13:30:00Z", 1_795_786_200_000),
            ("2026-11-27 13:30:00.25z", 1_795_786_200_250),
            ("2026-11-27T14:30:00+01:00", 1_795_786_200_000),
            ("2026-11-27T08:00:00-05:30", 1_795_786_200_000),
            ("2000-02-29T23:59:60Z", 951_868_799_000),
        ] {
            assert_eq!(milliseconds(text), Some(expected), "{text}");
        }
        for text in [
            "",
            ".",
            "1.",
            "-1",
            "1969-12-31",
            "2026-11-31",
            "2025-02-29",
            "2026-13-01",
            "2026-1-1",
            "2026-11-27T24:00:00Z",
            "2026-11-27T13:30Z",
            "2026-11-27T13:30:00",
            "2026-11-27T13:30:00+1",
            "yesterday",
            "253402300800",
            "1795786200000",
        ] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }

    #[test]
    fn milliseconds_are_told_from_seconds() {
        let refused = time("1795786200000").unwrap_err();
        assert!(refused.ends_with("seconds, not milliseconds"), "{refused}");
        assert_eq!(
            milliseconds("253402300799"),
            milliseconds("9999-12-31T23:59:59Z")
        );
    }

    /// The twin tells dates from days.
    #[test]
    fn dates_go_there_and_back() {
        for day in (0..200_000).step_by(37).chain(10_900..11_100) {
            let text = utc(day * 86_400);
            let expected = u128::from(day) * 86_400_000;
            assert_eq!(milliseconds(&text[..10]), Some(expected), "{text}");
        }
    }
}
