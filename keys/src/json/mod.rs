//! Keys that are members of JSON records.
//!
//! # How does it work?
//!
//! A record is read once. What isn't asked for is checked and skipped, without a copy. Names and punctuation that stood in
//! earlier records are compared and not read again (`shape.rs`).
//!
//! ```
//! use everseen_keys::json::{Finder, Pointer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut finder = Finder::new(&[Pointer::parse("meta.url")?])?;
//! let record = br#"{"id": 7, "meta": {"url": "https://example.org/caf\u00e9"}}"#;
//! assert_eq!(finder.find(record)?, "https://example.org/café".as_bytes());
//! # Ok(())
//! # }
//! ```
//!
//! | value | bytes of the key |
//! |---|---|
//! | string | its characters in UTF-8, with escapes decoded |
//! | number | its exact value in decimal, of one spelling: `1`, `1.0` and `10e-1` are `1`; see below |
//! | `true`, `false` | as they are |
//! | object, array | its JSON without spaces: members sorted by the code points of their names, numbers as above, strings with as few escapes as JSON allows |
//! | `null` | none: as if the member were missing |
//!
//! A number and a string of the same characters are one key, as they are to `jq -r`. A number is written without an exponent
//! if it has at most 40 digits before its point, and at most 5 zeros behind `0.`; otherwise as `1.5e+41` or `1.5e-8`.
//! Nothing is rounded.
//!
//! Several members give one key: each as a netstring (its length in decimal, `:`, its bytes, `,`), in the order of the
//! pointers. So `("a", "bc")` is `1:a,2:bc,` and never the same as `("ab", "c")`.
//!
//! If an object has a member twice, the last one counts, as in Python and in browsers. A byte-order mark before a record is
//! no part of it.
//!
//! The parser is `serde_json`. Bytes of strings that are skipped may be no UTF-8; those of names and keys must be.

mod canonical;
mod error;
mod pointer;
mod shape;
#[cfg(test)]
mod tests;
mod walk;

use std::ops::Range;
use std::sync::Arc;

pub use error::JsonError;
pub use pointer::{Pointer, PointerError};
use shape::Shapes;
use walk::Node;

/// The version of the canonical form. It rises when some value becomes another key.
pub const RULES: u32 = 1;

/// The longest object or array that is a key, in bytes.
pub const LONGEST_CONTAINER: usize = 1 << 20;

/// The mark of the encoding that some programs write at the start of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Finds the keys of records. It keeps memory from one record to the next, so one is needed for each thread.
#[derive(Debug, Clone)]
pub struct Finder {
    root: Node,
    /// What earlier records looked like.
    shapes: Shapes,
    /// The pointers, for messages.
    names: Vec<Arc<str>>,
    /// Where each value lies in the record.
    values: Vec<Option<Range<usize>>>,
    key: Vec<u8>,
    /// One of several values.
    part: Vec<u8>,
}

impl Finder {
    /// Returns a finder of the values that these pointers name.
    ///
    /// # Errors
    /// There is no pointer, one is given twice, or lies within another.
    pub fn new(pointers: &[Pointer]) -> Result<Self, PointerError> {
        let root = Node::of_pointers(pointers)?;
        Ok(Finder {
            root,
            shapes: Shapes::default(),
            names: pointers.iter().map(|each| each.text().into()).collect(),
            values: Vec::new(),
            key: Vec::new(),
            part: Vec::new(),
        })
    }

    /// Returns the key of a record: of several values, a netstring of each.
    ///
    /// # Errors
    /// The record isn't JSON, a value is missing or null, or is one that has no key.
    pub fn find<'a>(&'a mut self, record: &'a [u8]) -> Result<&'a [u8], JsonError> {
        let record = self.look(record)?;
        if let [Some(value)] = &*self.values
            && let Some(plain) = canonical::plain_string(&record[value.clone()])
        {
            return Ok(plain);
        }
        let is_several = self.names.len() > 1;
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        let written = self.write(record, |value| {
            if is_several {
                key.extend_from_slice(format!("{}:", value.len()).as_bytes());
            }
            key.extend_from_slice(value);
            key.extend(is_several.then_some(b','));
        });
        self.key = key;
        written.map(|()| &*self.key)
    }

    /// Calls `each` with each of the values of a record.
    pub(crate) fn each(&mut self, record: &[u8], each: impl FnMut(&[u8])) -> Result<(), JsonError> {
        let record = self.look(record)?;
        self.write(record, each)
    }

    /// Finds the places of the values, and returns the record in which they are.
    fn look<'a>(&mut self, record: &'a [u8]) -> Result<&'a [u8], JsonError> {
        let record = record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record);
        self.values.clear();
        self.values.resize(self.names.len(), None);
        if !self.shapes.find(&self.root, record, &mut self.values) {
            self.values.fill(None);
            walk::find(&self.root, record, &mut self.values)?;
            self.shapes.learn(&self.root, record);
        }
        Ok(record)
    }

    /// Calls `each` with the canonical form of each value.
    fn write(&mut self, record: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), JsonError> {
        for (value, name) in self.values.iter().zip(&self.names) {
            let Some(value) = value.clone() else {
                return Err(JsonError::Missing { name: name.clone() });
            };
            self.part.clear();
            canonical::write(&record[value], name, &mut self.part)?;
            each(&self.part);
        }
        Ok(())
    }
}
