//! Numbers in arguments, as strict as Redis reads them.

use crate::reply::Refusal;

/// Returns the integer that an argument is: digits without a needless zero, and nothing beside them but a minus.
pub fn integer(argument: &[u8]) -> Option<i64> {
    let digits = argument.strip_prefix(b"-").unwrap_or(argument);
    let is_strict = match digits {
        [b'0'] => digits.len() == argument.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    match is_strict {
        true => std::str::from_utf8(argument).ok()?.parse().ok(),
        false => None,
    }
}

/// Returns the integer in an argument, or refuses it.
pub fn integer_or(argument: &[u8], otherwise: &'static str) -> Result<i64, Refusal> {
    integer(argument).ok_or(Refusal::new(otherwise))
}

/// Returns the number that an argument is: decimal or hexadecimal, as C reads it. What is out of a double's range is none.
pub fn double(argument: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(argument).ok()?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_in_range = |number: f64, mantissa: &str| {
        let is_nothing = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        number.is_finite() && (number != 0.0 || is_nothing)
    };
    if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        let (mantissa, number) = hexadecimal(hex)?;
        let number = if text.starts_with('-') {
            -number
        } else {
            number
        };
        return is_in_range(number, mantissa).then_some(number);
    }
    let number: f64 = text.parse().ok()?;
    if digits.starts_with(['i', 'I']) {
        return Some(number);
    }
    // "nan" is a number to the parser.
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    is_in_range(number, mantissa).then_some(number)
}

/// Returns the digits before the exponent, and the number.
fn hexadecimal(text: &str) -> Option<(&str, f64)> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        None => (text, 0),
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut number = 0.0_f64;
    for digit in whole.chars().chain(fraction.chars()) {
        number = number * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let places = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    // In two steps: the power alone may be out of a double's range where the number is not.
    let exponent = exponent.checked_sub(places)?.clamp(-4000, 4000);
    let half = exponent / 2;
    let number = number * 2.0_f64.powi(half) * 2.0_f64.powi(exponent - half);
    Some((mantissa, number))
}

/// Returns a number as C's `%g` writes it: six digits, without zeros at the end.
pub fn six_digits(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return number.to_string();
    }
    let scientific = format!("{number:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("it was asked for");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match exponent {
        -4..6 => {
            let decimals = usize::try_from(5 - exponent).unwrap_or(0);
            trimmed(&format!("{number:.decimals$}"))
        }
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{double, integer, six_digits};

    #[test]
    fn integers_are_strict() {
        for (text, expected) in [
            ("0", Some(0)),
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
        ] {
            assert_eq!(integer(text.as_bytes()), expected, "{text}");
        }
        for text in [
            "",
            "-",
            "+5",
            " 5",
            "5 ",
            "05",
            "-0",
            "-05",
            "1.0",
            "1e3",
            "0x10",
            "NaN",
            "1_000",
            "9223372036854775808",
            "-9223372036854775809",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn doubles_are_those_of_c() {
        for (text, expected) in [
            (".5", 0.5),
            ("5.", 5.0),
            ("1E-3", 1e-3),
            ("+0.1", 0.1),
            ("-0.1", -0.1),
            ("0x0.8p0", 0.5),
            ("-0X8p-1", -4.0),
            ("0x10", 16.0),
            ("0e9", 0.0),
            ("-0", 0.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e-320", 1e-320),
            ("0x1p-1074", 5e-324),
        ] {
            assert_eq!(double(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [
            "",
            ".",
            "nan",
            "-NaN",
            " 0.1",
            "0.1 ",
            "0.1x",
            "0,1",
            "0.1\0",
            "1e-400",
            "1e400",
            "0x",
            "0x.",
            "0x1p",
            "0x1p-9999",
            "0x1p9999",
            "0xg",
            "1e",
            "--1",
            "+-1",
        ] {
            assert_eq!(double(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn numbers_have_six_digits() {
        for (number, expected) in [
            (0.005, "0.005"),
            (0.00125, "0.00125"),
            (6.25e-05, "6.25e-05"),
            (1.5625e-05, "1.5625e-05"),
            (5e-301, "5e-301"),
            (0.499_999_999_999, "0.5"),
            (0.000_625, "0.000625"),
            (1_234_567.0, "1.23457e+06"),
            (1.0 / 3.0, "0.333333"),
            (0.0, "0"),
        ] {
            assert_eq!(six_digits(number), expected);
        }
    }
}
