//! One spelling of each value.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use memchr::memchr;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::LONGEST_CONTAINER;
use super::error::JsonError;

/// The most levels of an object or array that is a key. It bounds the stack; each level reads all deeper ones once more.
const DEEPEST: usize = 100;

/// The most digits before the point of a number without an exponent: as many as 128 bits have, and one.
const MOST_DIGITS: i64 = 40;

/// The most zeros behind the point, before other digits, of a number without an exponent.
const MOST_ZEROS: i64 = 5;

/// Returns the characters of a string that is written without an escape; `None` of any other value.
pub(super) fn plain_string(value: &[u8]) -> Option<&[u8]> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    memchr(b'\\', inner).is_none().then_some(inner)
}

/// Appends the key of a value, which the parser has checked.
pub(super) fn write(value: &[u8], name: &Arc<str>, key: &mut Vec<u8>) -> Result<(), JsonError> {
    let name = || name.clone();
    if let Some(plain) = plain_string(value) {
        key.extend_from_slice(plain);
        return Ok(());
    }
    // The parser has checked that, or there would be no value.
    let text = str::from_utf8(value).unwrap_or_default();
    let failed = match text.as_bytes().first() {
        Some(b'n') => return Err(JsonError::Null { name: name() }),
        Some(b'"') => {
            let text: String = serde_json::from_str(text)
                .map_err(|_| JsonError::LoneSurrogate { name: name() })?;
            key.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        Some(b'{' | b'[') if value.len() > LONGEST_CONTAINER => {
            return Err(JsonError::TooLong {
                name: name(),
                got: value.len(),
            });
        }
        _ => nested(text, DEEPEST, key).err(),
    };
    Err(match failed {
        None => return Ok(()),
        Some(Unwritten::Surrogate) => JsonError::LoneSurrogate { name: name() },
        Some(Unwritten::Exponent) => JsonError::ExponentTooLarge { name: name() },
        Some(Unwritten::Depth) => JsonError::TooDeep { name: name() },
    })
}

/// Why a value can't be written.
#[derive(Clone, Copy)]
enum Unwritten {
    Surrogate,
    Exponent,
    Depth,
}

/// Appends a value as JSON, with at most so many levels.
fn nested(text: &str, levels: usize, json: &mut Vec<u8>) -> Result<(), Unwritten> {
    match text.as_bytes().first() {
        Some(b'{') => object(text, levels.checked_sub(1).ok_or(Unwritten::Depth)?, json),
        Some(b'[') => array(text, levels.checked_sub(1).ok_or(Unwritten::Depth)?, json),
        Some(b'"') => {
            let text: String = serde_json::from_str(text).map_err(|_| Unwritten::Surrogate)?;
            string(&text, json);
            Ok(())
        }
        Some(b'-' | b'0'..=b'9') => number(text, json),
        // true, false, null
        _ => {
            json.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
}

fn string(text: &str, json: &mut Vec<u8>) {
    // Can't fail: memory takes all.
    let written = serde_json::to_writer(&mut *json, text);
    debug_assert!(written.is_ok());
}

fn object(text: &str, levels: usize, json: &mut Vec<u8>) -> Result<(), Unwritten> {
    // Sorted by name; of two members with one name, the last stays.
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(text).map_err(|_| Unwritten::Surrogate)?;
    json.push(b'{');
    for (number, (name, value)) in members.iter().enumerate() {
        if number > 0 {
            json.push(b',');
        }
        string(name, json);
        json.push(b':');
        nested(value.get(), levels, json)?;
    }
    json.push(b'}');
    Ok(())
}

fn array(text: &str, levels: usize, json: &mut Vec<u8>) -> Result<(), Unwritten> {
    json.push(b'[');
    let mut result = Ok(());
    let items = Items {
        levels,
        json,
        result: &mut result,
    };
    // Item by item: small ones would take more memory than their text.
    let parsed = items.deserialize(&mut serde_json::Deserializer::from_str(text));
    result?;
    parsed.map_err(|_| Unwritten::Surrogate)?;
    json.push(b']');
    Ok(())
}

struct Items<'a> {
    levels: usize,
    json: &'a mut Vec<u8>,
    result: &'a mut Result<(), Unwritten>,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut is_first = true;
        while let Some(item) = items.next_element::<&RawValue>()? {
            if !std::mem::take(&mut is_first) {
                self.json.push(b',');
            }
            if self.result.is_ok() {
                *self.result = nested(item.get(), self.levels, self.json);
            }
        }
        Ok(())
    }
}

/// Appends the exact value of a number, which the parser has checked.
fn number(text: &str, out: &mut Vec<u8>) -> Result<(), Unwritten> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, ""));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    let zeros = digits.len() - significant.len();
    let significant = significant.trim_end_matches('0');
    if significant.is_empty() {
        // Also of -0.0 and 0e999.
        out.push(b'0');
        return Ok(());
    }
    let exponent: i64 = match exponent {
        "" => 0,
        exponent => exponent.parse().map_err(|_| Unwritten::Exponent)?,
    };
    let length = |text: &str| i64::try_from(text.len()).map_err(|_| Unwritten::Exponent);
    let zeros = i64::try_from(zeros).map_err(|_| Unwritten::Exponent)?;
    // How many digits are before the point: the value is 0.DIGITS times ten to this power.
    let point = exponent
        .checked_add(length(whole)?)
        .and_then(|point| point.checked_sub(zeros))
        .ok_or(Unwritten::Exponent)?;
    let count = length(significant)?;
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    out.extend_from_slice(sign.as_bytes());
    let written = if (1..=MOST_DIGITS).contains(&point) {
        match usize::try_from(point) {
            Ok(at) if point < count => {
                let (whole, fraction) = significant.split_at(at);
                format!("{whole}.{fraction}")
            }
            _ => format!("{significant}{}", zeros(point - count)),
        }
    } else if (-MOST_ZEROS..=0).contains(&point) {
        format!("0.{}{significant}", zeros(-point))
    } else {
        let (first, more) = significant.split_at(1);
        let dot = if more.is_empty() { "" } else { "." };
        let power = point.checked_sub(1).ok_or(Unwritten::Exponent)?;
        format!("{first}{dot}{more}e{power:+}")
    };
    out.extend_from_slice(written.as_bytes());
    Ok(())
}
