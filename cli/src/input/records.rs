//! `--json-key` and its like, for every command that takes items.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use everseen_keys::columns::{Column, Separator};
use everseen_keys::json::Pointer;
use everseen_keys::rule::{CsvRule, FieldsRule, JsonRule, NoKey, Part};
use everseen_keys::text::TextRule;

use crate::error::{CliError, KeyError};
use crate::input::pages::Pages;
use crate::input::urls::Urls;
use crate::options::units;

/// The part of the command line that says how items become keys.
#[derive(clap::Args, Clone, Default)]
pub struct KeyOptions {
    #[command(flatten)]
    pub records: Records,

    #[command(flatten)]
    pub text: Text,

    #[command(flatten)]
    pub urls: Urls,

    #[command(flatten)]
    pub pages: Pages,
}

/// The part of the command line that says which part of an item is its key.
#[derive(clap::Args, Clone, Default)]
pub struct Records {
    /// Compare JSON records by this value: `url`, `meta.url`, /meta/url
    ///
    /// A JSON Pointer, or a path with dots, in one record an item. Given several times, all values together are the
    /// key. See `everseen help keys`.
    #[arg(long, value_name = "PATH", value_parser = Pointer::parse, conflicts_with_all = ["csv_key", "key_field"], help_heading = "Keys in records")]
    pub json_key: Vec<Pointer>,

    /// Compare CSV records by this column: its name, or number from 1
    ///
    /// Fields in quotes may have line ends in them. The header is printed once. Given several times, all columns
    /// together are the key. See `everseen help keys`.
    #[arg(long, value_name = "COLUMN", value_parser = Column::parse, conflicts_with = "key_field", help_heading = "Keys in records")]
    pub csv_key: Vec<Column>,

    /// What is between columns of CSV: one character, or \t [default: ,]
    #[arg(long, value_name = "CHAR", value_parser = delimiter, conflicts_with = "tsv", help_heading = "Keys in records")]
    pub delimiter: Option<u8>,

    /// Short for --delimiter '\t'
    #[arg(long, help_heading = "Keys in records")]
    pub tsv: bool,

    /// The first CSV record is no header; columns have numbers then
    #[arg(long, help_heading = "Keys in records")]
    pub no_header: bool,

    /// Compare lines by this field, from 1, between white space as in awk
    ///
    /// Without quotes. Given several times, all fields together are the key. See `everseen help keys`.
    #[arg(long, value_name = "N", value_parser = units::positive_count, help_heading = "Keys in records")]
    pub key_field: Vec<u64>,

    /// Any bytes between fields, with \t, \n, \0, \\ and \xHH for some
    ///
    /// Instead of white space.
    #[arg(long, value_name = "BYTES", value_parser = separator, help_heading = "Keys in records")]
    pub field_separator: Option<Separator>,

    /// Records without a key: pass, drop or fail [default: as created]
    ///
    /// Their value is missing or null, or they are not JSON. Pass them on, compared as a whole, drop them, or fail,
    /// which ends the command. They are counted, and the first ones reported. A store keeps what it was created with,
    /// which is otherwise pass.
    #[arg(long, value_name = "WHAT", value_parser = no_key(), help_heading = "Keys in records")]
    pub no_key: Option<NoKey>,
}

/// The part of the command line that says which differences of keys don't count.
#[derive(clap::Args, Clone, Copy, Default)]
pub struct Text {
    /// Ignore the case of letters: Ä is ä, but ß is not ss
    ///
    /// By the simple case folding of Unicode.
    #[arg(long, help_heading = "Keys in records")]
    pub ignore_case: bool,

    /// Ignore white space around a key, and a byte-order mark before it
    ///
    /// Carriage returns are white space.
    #[arg(long, help_heading = "Keys in records")]
    pub trim: bool,

    /// Ignore the carriage return before a line end, as of Windows
    ///
    /// Lines are printed as they came.
    #[arg(long, help_heading = "Keys in records")]
    pub crlf: bool,
}

/// Parses text with escapes.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let character = escape.chars().next()?;
        rest = &escape[character.len_utf8()..];
        bytes.push(match character {
            't' => b'\t',
            'n' => b'\n',
            'r' => b'\r',
            '0' => 0,
            '\\' => b'\\',
            'x' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                u8::from_str_radix(digits, 16).ok()?
            }
            _ => return None,
        });
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

fn separator(text: &str) -> Result<Separator, &'static str> {
    let bytes =
        bytes(text).ok_or("write \\\\ for a backslash; \\t, \\n, \\0 and \\xHH are known")?;
    match bytes.is_empty() {
        true => Err("the separator is empty; leave the option out for white space"),
        false => Ok(Separator::Bytes(bytes)),
    }
}

fn delimiter(text: &str) -> Result<u8, &'static str> {
    // A backslash alone is one, too.
    let bytes = match text {
        "\\" => vec![b'\\'],
        text => bytes(text).unwrap_or_default(),
    };
    match bytes[..] {
        [b'"' | b'\n' | b'\r'] => Err("quotes and line ends have a meaning of their own in CSV"),
        [byte @ ..=0x7F] => Ok(byte),
        _ => Err("expected one character of ASCII, or \\t"),
    }
}

fn no_key() -> impl TypedValueParser<Value = NoKey> {
    let names = [NoKey::Pass, NoKey::Drop, NoKey::Fail].map(NoKey::name);
    PossibleValuesParser::new(names).map(|name| NoKey::of_name(&name).unwrap_or_default())
}

impl KeyOptions {
    /// Returns whether any of these options is given.
    pub fn is_given(&self) -> bool {
        self.urls.is_given()
            || self.records.names_part()
            || self.records.given_refinements().next().is_some()
            || !self.text.rule().is_exact()
            || self.pages.first_given().is_some()
    }

    /// Refuses an option that needs another one, where no store says what that one would.
    pub fn ensure_complete(&self) -> Result<(), CliError> {
        self.urls.ensure_url()?;
        if let Some(option) = self.pages.first_given().filter(|_| !self.urls.url) {
            return Err(KeyError::NeedsUrl { option }.into());
        }
        let records = &self.records;
        for (option, needs) in records.given_refinements() {
            let is_there = match needs {
                Needs::Csv => !records.csv_key.is_empty(),
                Needs::Fields => !records.key_field.is_empty(),
                Needs::Any => records.names_part(),
            };
            if !is_there {
                let needs = needs.describe();
                return Err(KeyError::NeedsRecordKey { option, needs }.into());
            }
        }
        Ok(())
    }
}

/// Which option another one needs.
#[derive(Clone, Copy)]
pub enum Needs {
    Csv,
    Fields,
    Any,
}

impl Needs {
    fn describe(self) -> &'static str {
        match self {
            Needs::Csv => "--csv-key",
            Needs::Fields => "--key-field",
            Needs::Any => "--json-key, --csv-key or --key-field",
        }
    }
}

impl Text {
    /// Returns what these options say.
    pub fn rule(self) -> TextRule {
        TextRule {
            crlf: self.crlf,
            trim: self.trim,
            ignore_case: self.ignore_case,
        }
    }
}

impl Records {
    /// Returns whether an option names a part of the record.
    pub fn names_part(&self) -> bool {
        !(self.json_key.is_empty() && self.csv_key.is_empty() && self.key_field.is_empty())
    }

    /// Returns the given options that say how the part is found, and what each needs.
    pub fn given_refinements(&self) -> impl Iterator<Item = (&'static str, Needs)> {
        let separator = self.field_separator.is_some();
        let options = [
            ("--delimiter", self.delimiter.is_some(), Needs::Csv),
            ("--tsv", self.tsv, Needs::Csv),
            ("--no-header", self.no_header, Needs::Csv),
            ("--field-separator", separator, Needs::Fields),
            ("--no-key", self.no_key.is_some(), Needs::Any),
        ];
        let given = options.into_iter().filter(|(_, is_given, _)| *is_given);
        given.map(|(option, _, needs)| (option, needs))
    }

    /// Returns the delimiter that was asked for.
    pub fn asked_delimiter(&self) -> Option<u8> {
        self.delimiter.or(self.tsv.then_some(b'\t'))
    }

    /// Returns which part of the record these options name.
    pub fn part(&self) -> Result<Part, CliError> {
        if !self.json_key.is_empty() {
            let rule = JsonRule::new(&self.json_key);
            return Ok(rule.map(Part::Json).map_err(KeyError::JsonKey)?);
        }
        if !self.csv_key.is_empty() {
            let delimiter = self.asked_delimiter().unwrap_or(b',');
            let mut rule = CsvRule::new(&self.csv_key, delimiter).map_err(KeyError::CsvKey)?;
            rule.has_header = !self.no_header;
            let is_named = |column: &Column| matches!(column, Column::Name(_));
            if self.no_header && self.csv_key.iter().any(is_named) {
                return Err(CliError::Usage(
                    "--no-header: needs numbers of columns, since names stand in a header",
                ));
            }
            return Ok(Part::Csv(rule));
        }
        if self.key_field.is_empty() {
            return Ok(Part::Whole);
        }
        let numbers = self.key_field.iter().map(|number| usize::try_from(*number));
        let numbers: Vec<_> = numbers.map(|number| number.unwrap_or(usize::MAX)).collect();
        let separator = self.field_separator.clone().unwrap_or_default();
        let rule = FieldsRule::new(&numbers, separator);
        Ok(rule.map(Part::Fields).map_err(KeyError::KeyField)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_any_bytes() {
        let of = |text| separator(text).map(|separator| format!("{separator:?}"));
        let are = |bytes: &[u8]| Ok(format!("{:?}", Separator::Bytes(bytes.to_vec())));
        assert_eq!(of("::"), are(b"::"));
        assert_eq!(of(r"\t|\x1f\xFF\\\0\n"), are(b"\t|\x1f\xff\\\0\n"));
        assert_eq!(of("é"), are("é".as_bytes()));
        for wrong in [r"\", r"a\q", r"\x1", r"\xzz", r"\xé", ""] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_delimiter_is_one_character() {
        for (text, byte) in [
            (";", b';'),
            (r"\t", b'\t'),
            ("\t", b'\t'),
            (r"\", b'\\'),
            (" ", b' '),
        ] {
            assert_eq!(delimiter(text), Ok(byte), "{text}");
        }
        for wrong in ["", ",,", "é", "\"", r"\n", r"\xff", "tab"] {
            assert!(delimiter(wrong).is_err(), "{wrong}");
        }
    }
}
