//! Medians, and numbers as people read them.

/// The middle one of some values; of an even count the greater of the two in the middle.
///
/// # Panics
/// If there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    assert!(!values.is_empty(), "a median of nothing");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A number without digits behind the point, and with a comma before each three of those before it.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with a suffix (`k`, `M`), or plain.
///
/// # Errors
/// A message if it is no count.
pub fn count(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(['k', 'M', 'G']);
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(format!("a count such as 500, 20k or 4M, not {text}")),
    };
    let number = digits
        .parse::<u64>()
        .map_err(|error| format!("{text}: {error}"))?;
    number
        .checked_mul(unit)
        .filter(|count| *count > 0)
        .ok_or_else(|| format!("{text}: out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 3.0);
    }

    #[test]
    fn numbers_have_commas() {
        for (number, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (1000.0, "1,000"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn counts_have_suffixes() {
        assert_eq!(count("500"), Ok(500));
        assert_eq!(count("20k"), Ok(20_000));
        assert_eq!(count("4M"), Ok(4_000_000));
        assert_eq!(count("10G"), Ok(10_000_000_000));
        for wrong in ["", "0", "k", "4kM", "99999999999999999999"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }
}
