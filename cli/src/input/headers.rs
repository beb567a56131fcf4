//! The headers of CSV files: one for all of them.

use everseen_keys::columns::Column;
use everseen_keys::extractor::Extractor;
use everseen_keys::rule::Part;

use crate::error::{CliError, KeyError};
use crate::input::keying::shown;

/// What is known of the headers of the inputs.
pub struct Headers {
    /// Whether inputs have headers.
    has_some: bool,
    /// Whether the next item may be a header.
    is_due: bool,
    /// Whether columns have names.
    is_named: bool,
    separator: u8,
    /// The header of the first input, without its line end.
    first: Option<Box<[u8]>>,
}

impl Headers {
    pub fn of(part: &Part, separator: u8) -> Self {
        let (has_some, columns) = match part {
            Part::Csv(own) => (own.has_header, own.columns()),
            _ => (false, &[][..]),
        };
        let is_named = |column: &Column| matches!(column, Column::Name(_));
        Headers {
            has_some,
            is_due: false,
            is_named: columns.iter().any(is_named),
            separator,
            first: None,
        }
    }

    /// Notes that the next item is the first one of an input.
    pub fn begin_input(&mut self) {
        self.is_due = self.has_some;
    }

    /// Returns whether the next item may be a header.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Takes an item of the input `name` that is a header, and tells the extractor where columns are. Returns `None` if it
    /// is a record, and the header with its line end if it is the first one.
    pub fn take(
        &mut self,
        item: &[u8],
        name: &str,
        extractor: &mut Extractor,
    ) -> Result<Option<Option<Box<[u8]>>>, CliError> {
        if !std::mem::take(&mut self.is_due) {
            return Ok(None);
        }
        let bare = without_ends(item);
        if bare.is_empty() {
            // A blank line before a header is no record.
            self.is_due = true;
            return Ok(Some(None));
        }
        let Some(first) = &self.first else {
            let known = extractor.set_header(item);
            known.map_err(|reason| KeyError::NoColumn {
                name: name.to_owned(),
                reason,
                header: shown(item),
            })?;
            self.first = Some(bare.into());
            return Ok(Some(Some([item, &[self.separator]].concat().into())));
        };
        if **first == *bare {
            return Ok(Some(None));
        }
        // Such a file is a header with columns in another order, rather than a part of the first one.
        if self.is_named && extractor.clone().set_header(item).is_ok() {
            return Err(KeyError::OtherHeader {
                name: name.to_owned(),
                header: shown(item),
            }
            .into());
        }
        Ok(None)
    }
}

/// Returns a header without what differs from file to file: a byte-order mark, a carriage return.
pub fn without_ends(item: &[u8]) -> &[u8] {
    let item = item.strip_prefix("\u{feff}".as_bytes()).unwrap_or(item);
    item.strip_suffix(b"\r").unwrap_or(item)
}
