//! Where CSV records end: at the line feeds outside of quotes.

use csv_core::{ReadRecordResult, Reader};
use memchr::memchr2;

use super::parser;

/// Fields are parsed into this much memory at a time, and forgotten.
const SCRATCH: usize = 4096;
const SCRATCH_ENDS: usize = 64;

/// Finds the ends of CSV records in bytes that come piece by piece.
pub struct CsvCutter {
    parser: Reader,
    /// Whether the parser is in the middle of a record.
    is_open: bool,
    text: Box<[u8; SCRATCH]>,
    ends: [usize; SCRATCH_ENDS],
}

impl CsvCutter {
    /// Returns a cutter at the start of a record.
    pub fn new(delimiter: u8) -> Self {
        CsvCutter {
            parser: parser(delimiter),
            is_open: false,
            text: Box::new([0; SCRATCH]),
            ends: [0; SCRATCH_ENDS],
        }
    }

    /// Calls `end` with the place of each line feed in the next bytes that ends a record.
    pub fn cut(&mut self, bytes: &[u8], mut end: impl FnMut(usize)) {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_open {
                at += self.parse(&bytes[at..]);
                if !self.is_open {
                    end(at - 1);
                }
                continue;
            }
            // Most records have no quote, and end at the next line feed.
            match memchr2(b'\n', b'"', &bytes[at..]) {
                Some(found) if bytes[at + found] == b'\n' => {
                    end(at + found);
                    at += found + 1;
                }
                _ => {
                    self.parser.reset();
                    self.is_open = true;
                }
            }
        }
    }

    /// Returns whether the bytes so far end within quotes, where no line feed ends a record. Nothing can be cut afterwards.
    pub fn is_in_quotes(&mut self) -> bool {
        if self.is_open {
            self.parse(b"\n");
        }
        self.is_open
    }

    /// Parses bytes, of which there are some, up to the end of the record that is open. Returns how many it has parsed.
    fn parse(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let (result, read, _, _) =
                self.parser
                    .read_record(&bytes[at..], &mut self.text[..], &mut self.ends);
            at += read;
            if result == ReadRecordResult::Record {
                self.is_open = false;
                break;
            }
        }
        at
    }
}
