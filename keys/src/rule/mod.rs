//! How records become keys, and the label in which a store keeps that.
//!
//! How records are separated is no part of it: the same record is the same key, whatever stands behind it.

mod label;
mod names;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::columns::{Column, ColumnError, Separator};
use crate::json::{self, Pointer, PointerError};
use crate::text::TextRule;
use crate::url;
use crate::url::pages::PageRules;

/// How a record becomes a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Which part of it.
    pub part: Part,
    /// What becomes of a record without that part: a preference, which changes no key of one that has it.
    pub no_key: NoKey,
    /// Which differences don't count.
    pub text: TextRule,
    /// Whether that part is a URL, and all spellings of one are one key.
    pub url: Option<UrlRule>,
    /// What of a URL doesn't count beyond the standard. Nothing, if the key isn't a URL.
    pub pages: PageRules,
}

/// Which part of a record is its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// Values of a JSON record.
    Json(JsonRule),
    /// Columns of a CSV record.
    Csv(CsvRule),
    /// Fields of a line.
    Fields(FieldsRule),
}

impl Part {
    /// Returns how many values make the key.
    pub fn values(&self) -> usize {
        match self {
            Part::Whole => 1,
            Part::Json(own) => own.pointers.len(),
            Part::Csv(own) => own.columns.len(),
            Part::Fields(own) => own.numbers.len(),
        }
    }

    /// Returns the values as the options of the command name them.
    pub fn names(&self) -> Vec<String> {
        match self {
            Part::Whole => Vec::new(),
            Part::Json(own) => own.pointers.iter().map(Pointer::text).collect(),
            Part::Csv(own) => own.columns.iter().map(Column::text).collect(),
            Part::Fields(own) => own.numbers.iter().map(usize::to_string).collect(),
        }
    }
}

/// Which values of a JSON record are its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonRule {
    pointers: Vec<Pointer>,
}

impl JsonRule {
    /// Returns the rule for these values.
    ///
    /// # Errors
    /// There is no pointer, one is given twice, or lies within another, or all together are longer than a label.
    pub fn new(pointers: &[Pointer]) -> Result<Self, PointerError> {
        json::Finder::new(pointers)?;
        match names::fit(pointers.iter().map(Pointer::text)) {
            true => Ok(JsonRule {
                pointers: pointers.to_vec(),
            }),
            false => Err(PointerError::TooMany),
        }
    }

    /// Returns the ways to the values, in the order in which they make the key.
    pub fn pointers(&self) -> &[Pointer] {
        &self.pointers
    }
}

/// Which columns of a CSV record are its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvRule {
    columns: Vec<Column>,
    delimiter: u8,
    /// Whether the first record of a file is a header: a preference, as long as no column has a name.
    pub has_header: bool,
}

impl CsvRule {
    /// Returns the rule for these columns of files with a header.
    ///
    /// # Errors
    /// There is no column, one is given twice, or all names together are longer than a label.
    pub fn new(columns: &[Column], delimiter: u8) -> Result<Self, ColumnError> {
        names::ensure_each_once(&columns.iter().map(Column::text).collect::<Vec<_>>())?;
        match names::fit(columns.iter().map(Column::text)) {
            true => Ok(CsvRule {
                columns: columns.to_vec(),
                delimiter,
                has_header: true,
            }),
            false => Err(ColumnError::TooMany),
        }
    }

    /// Returns the columns, in the order in which they make the key.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns what is between two fields.
    pub fn delimiter(&self) -> u8 {
        self.delimiter
    }
}

/// Which fields of a line are its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldsRule {
    numbers: Vec<usize>,
    separator: Separator,
}

impl FieldsRule {
    /// Returns the rule for the fields with these numbers, counted from 1.
    ///
    /// # Errors
    /// There is no field, one is given twice, its number is 0, the separator is empty, or all is longer than a label.
    pub fn new(numbers: &[usize], separator: Separator) -> Result<Self, ColumnError> {
        let names: Vec<_> = numbers.iter().map(usize::to_string).collect();
        names::ensure_each_once(&names)?;
        if numbers.contains(&0) {
            return Err(ColumnError::Number);
        }
        match &separator {
            Separator::Bytes(bytes) if bytes.is_empty() => return Err(ColumnError::NoSeparator),
            Separator::Bytes(bytes) if bytes.len() > 100 => return Err(ColumnError::TooMany),
            _ => {}
        }
        match names::fit(names) {
            true => Ok(FieldsRule {
                numbers: numbers.to_vec(),
                separator,
            }),
            false => Err(ColumnError::TooMany),
        }
    }

    /// Returns the numbers of the fields, in the order in which they make the key.
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// Returns what is between two fields.
    pub fn separator(&self) -> &Separator {
        &self.separator
    }
}

/// What becomes of a record without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoKey {
    /// It is its own key: see [`Extractor::own_key`](crate::extractor::Extractor::own_key).
    #[default]
    Pass,
    /// It is left out.
    Drop,
    /// It ends the work.
    Fail,
}

/// How spellings of a URL become one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlRule {
    /// The version of the normalisation.
    pub rules: u32,
    /// Whether the order of a query's names doesn't count.
    pub sort_query: bool,
    /// Whether a leading `www.` doesn't count.
    pub drop_www: bool,
    /// A preference, which changes no key of a URL.
    pub not_url: NotUrl,
}

impl Default for UrlRule {
    fn default() -> Self {
        UrlRule {
            rules: url::RULES,
            sort_query: false,
            drop_www: false,
            not_url: NotUrl::default(),
        }
    }
}

/// What becomes of a key that isn't a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotUrl {
    /// It stays as it is.
    #[default]
    Pass,
    /// Its record is left out.
    Drop,
}

impl NoKey {
    /// Returns its name on the command line and in labels.
    pub fn name(self) -> &'static str {
        match self {
            NoKey::Pass => "pass",
            NoKey::Drop => "drop",
            NoKey::Fail => "fail",
        }
    }

    /// Returns the one with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let all = [NoKey::Pass, NoKey::Drop, NoKey::Fail];
        all.into_iter().find(|each| each.name() == name)
    }
}

impl NotUrl {
    /// Returns its name on the command line and in labels.
    pub fn name(self) -> &'static str {
        match self {
            NotUrl::Pass => "pass",
            NotUrl::Drop => "drop",
        }
    }

    /// Returns the one with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let all = [NotUrl::Pass, NotUrl::Drop];
        all.into_iter().find(|each| each.name() == name)
    }
}

/// What the label of a store says about its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The store has no label, or one of another program.
    Nothing,
    /// How its records become keys.
    Rule(Rule),
    /// The label is the command's, and this build doesn't know what it says.
    Unknown,
}

impl Rule {
    /// Returns the options of the command that name the part of a record, in one line.
    pub fn part_options(&self) -> String {
        names::part_options(&self.part)
    }
}

/// The options of the command that ask for the rule, as messages name them.
impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = vec![names::part_options(&self.part)];
        let mut what = vec![match &self.part {
            Part::Whole if self.url.is_some() => "as URLs",
            Part::Whole => "byte by byte",
            Part::Json(_) => "by a key in JSON",
            Part::Csv(_) => "by a column of CSV",
            Part::Fields(_) => "by a field",
        }];
        if self.part != Part::Whole {
            if self.no_key != NoKey::default() {
                options.push(format!("--no-key {}", self.no_key.name()));
            }
            what.extend(self.url.map(|_| "as URLs"));
        }
        let TextRule {
            crlf,
            trim,
            ignore_case,
        } = self.text;
        for (is_given, word) in [
            (crlf, "--crlf"),
            (trim, "--trim"),
            (ignore_case, "--ignore-case"),
        ] {
            options.extend(is_given.then(|| word.to_owned()));
        }
        if let Some(own) = &self.url {
            options.push("--url".to_owned());
            options.extend(own.sort_query.then(|| "--sort-query".to_owned()));
            options.extend(own.drop_www.then(|| "--drop-www".to_owned()));
            if own.not_url != NotUrl::default() {
                options.push(format!("--not-url {}", own.not_url.name()));
            }
        }
        options.extend(names::page_options(&self.pages));
        options.retain(|option| !option.is_empty());
        out.write_str(&what.join(", "))?;
        match options.is_empty() {
            true => Ok(()),
            false => write!(out, " ({})", options.join(" ")),
        }
    }
}
