//! Keys that are columns: of CSV, or of plain text.
//!
//! # How does it work?
//!
//! A CSV record without a quote is cut at its delimiters. One with quotes goes through the parser of the `csv` crate
//! (`csv-core`): a field in quotes may have delimiters, line ends and doubled quotes in it.
//!
//! ```
//! use everseen_keys::columns::{Column, Csv};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut csv = Csv::new(&[Column::parse("url")?], b',');
//! csv.set_header(b"id,url,title")?;
//! let record = br#"7,"http://a/?b,c","a ""title""""#;
//! assert_eq!(csv.find(record)?[0], b"http://a/?b,c");
//! # Ok(())
//! # }
//! ```
//!
//! Lines without quotes, [`Fields`], are cut at a separator of any bytes, or at white space as by `awk`.

mod cut;
mod error;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr_iter, memmem};

pub use cut::CsvCutter;
pub use error::ColumnError;

/// The mark of the encoding that some programs write at the start of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The version of how columns become keys. It rises when some record gets another key.
pub const RULES: u32 = 1;

/// A column, by its name in the header or by its number, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// By its name.
    Name(String),
    /// By its number.
    Number(usize),
}

impl Column {
    /// Parses what a user writes: digits are a number.
    ///
    /// # Errors
    /// The text is empty, or the number is 0 or too large.
    pub fn parse(text: &str) -> Result<Self, ColumnError> {
        if text.is_empty() {
            return Err(ColumnError::Empty);
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Column::Name(text.to_owned()));
        }
        match text.parse() {
            Ok(1..) => text
                .parse()
                .map(Column::Number)
                .map_err(|_| ColumnError::Number),
            _ => Err(ColumnError::Number),
        }
    }

    /// Returns its name, or its number.
    pub fn text(&self) -> String {
        match self {
            Column::Name(name) => name.clone(),
            Column::Number(number) => number.to_string(),
        }
    }
}

/// Returns the parser of records. Only a line feed ends one; a carriage return before it is taken off first.
fn parser(delimiter: u8) -> Reader {
    let mut builder = ReaderBuilder::new();
    builder.delimiter(delimiter);
    builder.terminator(Terminator::Any(b'\n')).build()
}

/// Takes the line end of a record off, which the parser would take for a part of its last field.
fn without_return(record: &[u8]) -> &[u8] {
    record.strip_suffix(b"\r").unwrap_or(record)
}

/// Finds columns of CSV records. It keeps memory from one record to the next, so one is needed for each thread.
pub struct Csv {
    delimiter: u8,
    columns: Vec<Column>,
    /// For messages.
    names: Vec<Arc<str>>,
    /// The place of each column, counted from 0; absent until the header says it.
    places: Vec<Option<usize>>,
    parser: Reader,
    /// The fields of a record with quotes.
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Csv {
    /// Returns a finder of these columns.
    pub fn new(columns: &[Column], delimiter: u8) -> Self {
        Csv {
            delimiter,
            columns: columns.to_vec(),
            names: columns.iter().map(|each| each.text().into()).collect(),
            places: columns
                .iter()
                .map(|column| match column {
                    Column::Name(_) => None,
                    Column::Number(number) => Some(number - 1),
                })
                .collect(),
            parser: parser(delimiter),
            text: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Returns whether a header has to say where a column is.
    pub fn wants_header(&self) -> bool {
        self.columns
            .iter()
            .any(|column| matches!(column, Column::Name(_)))
    }

    /// Learns from a header where the columns are. Of two with one name, the first counts.
    ///
    /// # Errors
    /// A column is not in the header.
    pub fn set_header(&mut self, header: &[u8]) -> Result<(), ColumnError> {
        let header = header.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header);
        self.parse(without_return(header), usize::MAX);
        let mut places = self.places.clone();
        for (place, column) in places.iter_mut().zip(&self.columns) {
            let Column::Name(name) = column else { continue };
            let mut fields = (0..self.ends.len()).map(|at| &self.text[self.parsed(at)]);
            *place = fields.position(|field| field == name.as_bytes());
            if place.is_none() {
                return Err(ColumnError::NotInHeader { name: name.clone() });
            }
        }
        self.places = places;
        Ok(())
    }

    /// Returns the columns of a record.
    ///
    /// # Errors
    /// The record has no such column.
    pub fn find<'a>(&'a mut self, record: &'a [u8]) -> Result<Vec<&'a [u8]>, ColumnError> {
        let mut found = Vec::with_capacity(self.columns.len());
        self.each(record, |field| found.push(field))?;
        Ok(found)
    }

    /// Calls `each` with each column of a record.
    pub(crate) fn each<'a>(
        &'a mut self,
        record: &'a [u8],
        mut each: impl FnMut(&'a [u8]),
    ) -> Result<(), ColumnError> {
        let record = record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record);
        let record = without_return(record);
        let quote = memchr(b'"', record);
        // What stands before the first quote is as it would be without it.
        let plain = &record[..quote.unwrap_or(record.len())];
        let is_before_quotes = |place: &Option<usize>| {
            let field = place.and_then(|place| plain_field(plain, self.delimiter, place));
            field.is_some_and(|(_, is_ended)| is_ended)
        };
        let is_plain = quote.is_none() || self.places.iter().all(is_before_quotes);
        if !is_plain {
            let last = self.places.iter().flatten().max();
            self.parse(record, last.map_or(0, |last| last.saturating_add(1)));
        }
        let this = &*self;
        for (place, name) in this.places.iter().zip(&this.names) {
            let missing = || ColumnError::Missing { name: name.clone() };
            let place = place.ok_or(ColumnError::NoHeader)?;
            each(if is_plain {
                let (field, _) = plain_field(record, this.delimiter, place).ok_or_else(missing)?;
                field
            } else if place < this.ends.len() {
                &this.text[this.parsed(place)]
            } else {
                return Err(missing());
            });
        }
        Ok(())
    }

    /// Parses the first fields of a record, at most so many, into `text` and `ends`.
    fn parse(&mut self, record: &[u8], most: usize) {
        self.parser.reset();
        // A field takes no more room than its text, and at least one delimiter.
        self.text.resize(record.len().max(1), 0);
        let fields = memchr_iter(self.delimiter, record).take(most).count() + 1;
        self.ends.resize(fields.min(most), 0);
        let (mut rest, mut written, mut ended) = (record, 0, 0);
        loop {
            let text = &mut self.text[written..];
            let ends = &mut self.ends[ended..];
            let (result, read, more, fields) = self.parser.read_record(rest, text, ends);
            rest = &rest[read..];
            written += more;
            ended += fields;
            match result {
                // The next call, without input, ends the last field.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len() + 1, 0),
                // There are never more fields than delimiters and one.
                ReadRecordResult::OutputEndsFull => break,
            }
        }
        self.ends.truncate(ended);
    }

    /// Where a field lies in `text`.
    fn parsed(&self, field: usize) -> Range<usize> {
        let start = field.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[field]
    }
}

/// With a new parser: the copy that csv-core 0.1 makes of one finds no delimiters.
impl Clone for Csv {
    fn clone(&self) -> Self {
        Csv {
            places: self.places.clone(),
            ..Csv::new(&self.columns, self.delimiter)
        }
    }
}

impl std::fmt::Debug for Csv {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = out.debug_struct("Csv");
        out.field("delimiter", &self.delimiter);
        out.field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// Returns a field of a record without quotes, or before them, and whether a delimiter ends it.
fn plain_field(record: &[u8], delimiter: u8, place: usize) -> Option<(&[u8], bool)> {
    let mut ends = memchr_iter(delimiter, record);
    let start = match place.checked_sub(1) {
        None if record.is_empty() => return None,
        None => 0,
        Some(before) => ends.nth(before)? + 1,
    };
    let end = ends.next();
    Some((&record[start..end.unwrap_or(record.len())], end.is_some()))
}

/// Finds columns of lines that are cut at each separator, whatever stands between.
#[derive(Debug, Clone)]
pub struct Fields {
    numbers: Vec<usize>,
    names: Vec<Arc<str>>,
    separator: Separator,
}

/// What is between two fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Separator {
    /// Spaces, tabs and line feeds, any number of them, as in `awk`. Those at both ends of a line separate nothing.
    #[default]
    Blank,
    /// These bytes, of which there is at least one. Two of them have an empty field between them.
    Bytes(Vec<u8>),
}

impl Fields {
    /// Returns a finder of the fields with these numbers, counted from 1.
    pub fn new(numbers: &[usize], separator: Separator) -> Self {
        Fields {
            numbers: numbers.to_vec(),
            names: numbers
                .iter()
                .map(|number| number.to_string().into())
                .collect(),
            separator,
        }
    }

    /// Calls `each` with each of the fields of a line.
    pub(crate) fn each<'a>(
        &self,
        line: &'a [u8],
        mut each: impl FnMut(&'a [u8]),
    ) -> Result<(), ColumnError> {
        for (number, name) in self.numbers.iter().zip(&self.names) {
            let field = match &self.separator {
                Separator::Blank => line
                    .split(|byte| b" \t\n".contains(byte))
                    .filter(|field| !field.is_empty())
                    .nth(number - 1),
                Separator::Bytes(bytes) => field_between(line, bytes, *number),
            };
            each(field.ok_or_else(|| ColumnError::Missing { name: name.clone() })?);
        }
        Ok(())
    }
}

fn field_between<'a>(line: &'a [u8], separator: &[u8], number: usize) -> Option<&'a [u8]> {
    let finder = memmem::Finder::new(separator);
    let mut rest = line;
    for _ in 1..number {
        rest = &rest[finder.find(rest)? + separator.len()..];
    }
    Some(&rest[..finder.find(rest).unwrap_or(rest.len())])
}
