//! Where CSV records end: at the line feeds outside of quotes.

use csv_core::{ReadFieldResult, Reader};
use memchr::{memchr, memchr2, memrchr};

use super::parser;

/// Fields are parsed into this much memory at a time, and forgotten.
const SCRATCH: usize = 4096;

/// Finds the ends of CSV records in bytes that come piece by piece.
///
/// Only fields with quotes in them go through the parser, unless they are written as they should be: from quote to quote,
/// with those in between doubled. It stands at the start of a field in between.
pub struct CsvCutter {
    parser: Reader,
    delimiter: u8,
    /// Whether the parser is in the middle of a field.
    is_open: bool,
    /// How much of a byte-order mark came so far, at the start of a text; `None` behind it.
    mark: Option<usize>,
    text: Box<[u8; SCRATCH]>,
}

const MARK: &[u8; 3] = b"\xEF\xBB\xBF";

impl CsvCutter {
    /// Returns a cutter at the start of a text, where a byte-order mark is skipped.
    pub fn new(delimiter: u8) -> Self {
        CsvCutter {
            mark: Some(0),
            ..Self::inside(delimiter)
        }
    }

    /// Returns a cutter at the start of a record inside a text.
    pub fn inside(delimiter: u8) -> Self {
        let mut text = Box::new([0; SCRATCH]);
        let mut parser = parser(delimiter);
        // The parser skips a mark in the first bytes that it gets, which may lie anywhere. These are skipped too.
        let _ = parser.read_field(b"\n", &mut text[..]);
        CsvCutter {
            parser,
            delimiter,
            is_open: false,
            mark: None,
            text,
        }
    }

    /// Calls `end` with the place of each line feed in the next bytes that ends a record.
    pub fn cut(&mut self, bytes: &[u8], mut end: impl FnMut(usize)) {
        let mut at = self.skip_mark(bytes);
        while at < bytes.len() {
            if self.is_open {
                let (read, ends_record) = self.parse(&bytes[at..]);
                at += read;
                if ends_record {
                    end(at - 1);
                }
                continue;
            }
            // Most fields have no quote, and most records end at the next line feed.
            let rest = &bytes[at..];
            let found = memchr2(b'\n', b'"', rest);
            match found {
                Some(found) if rest[found] == b'\n' => {
                    end(at + found);
                    at += found + 1;
                }
                _ => {
                    let before = &rest[..found.unwrap_or(rest.len())];
                    let delimiter = memrchr(self.delimiter, before);
                    let field = delimiter.map_or(0, |delimiter| delimiter + 1);
                    at += field;
                    match quoted_length(&bytes[at..], self.delimiter) {
                        Some(length) => {
                            at += length;
                            if bytes[at - 1] == b'\n' {
                                end(at - 1);
                            }
                        }
                        None => self.is_open = at < bytes.len(),
                    }
                }
            }
        }
    }

    /// Returns how many of the next bytes belong to a byte-order mark.
    fn skip_mark(&mut self, bytes: &[u8]) -> usize {
        let Some(seen) = self.mark else {
            return 0;
        };
        let left = &MARK[seen..];
        let some = left.len().min(bytes.len());
        if bytes[..some] != left[..some] {
            self.mark = None;
            return 0;
        }
        self.mark = (some < left.len()).then_some(seen + some);
        some
    }

    /// Returns whether the bytes so far end within quotes, where no line feed ends a record. Nothing can be cut afterwards.
    pub fn is_in_quotes(&mut self) -> bool {
        if self.is_open {
            self.parse(b"\n");
        }
        self.is_open
    }

    /// Parses bytes, of which there are some, up to the end of the field that is open. Returns how many it has parsed, and
    /// whether the field ends its record.
    fn parse(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            let (result, read, _) = self.parser.read_field(&bytes[at..], &mut self.text[..]);
            at += read;
            if let ReadFieldResult::Field { record_end } = result {
                self.is_open = false;
                return (at, record_end);
            }
        }
        (at, false)
    }
}

/// Returns the length of a field with the delimiter or line feed behind it, if it is written from quote to quote.
fn quoted_length(field: &[u8], delimiter: u8) -> Option<usize> {
    let mut at = 1;
    if *field.first()? != b'"' {
        return None;
    }
    loop {
        let quote = at + memchr(b'"', field.get(at..)?)?;
        match *field.get(quote + 1)? {
            b'"' => at = quote + 2,
            byte if byte == delimiter || byte == b'\n' => return Some(quote + 2),
            _ => return None,
        }
    }
}
