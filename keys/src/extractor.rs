//! Does what a rule says: takes the key out of a record.

use crate::columns::{ColumnError, Csv, Fields};
use crate::joined::push_value;
use crate::json::{Finder, JsonError};
use crate::rule::{Part, Rule};
use crate::text::TextRule;
use crate::url::{Normalizer, UrlError};

/// What comes before a record that is its own key because it has none: a byte that no text in UTF-8 has.
const OWN_KEY_MARK: u8 = 0xFF;

/// Why a record has no key by a rule.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stray {
    /// The value that should be the key isn't there.
    #[error("no key: {0}")]
    NoKey(#[from] JsonError),
    /// The column that should be the key isn't there.
    #[error("no key: {0}")]
    NoColumn(#[from] ColumnError),
    /// The key isn't a URL.
    #[error("no URL: {0}")]
    NotUrl(#[from] UrlError),
}

impl Stray {
    /// Returns whether the record has a key that isn't a URL, rather than no key.
    pub fn is_not_url(&self) -> bool {
        matches!(self, Stray::NotUrl(_))
    }

    /// Returns the reason alone.
    pub fn reason(&self) -> &dyn std::fmt::Display {
        match self {
            Stray::NoKey(reason) => reason,
            Stray::NoColumn(reason) => reason,
            Stray::NotUrl(reason) => reason,
        }
    }
}

/// Takes keys out of records. It keeps memory from one record to the next, so one is needed for each thread.
///
/// ```
/// use everseen_keys::extractor::Extractor;
/// use everseen_keys::json::Pointer;
/// use everseen_keys::rule::{JsonRule, Part, Rule, UrlRule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let part = Part::Json(JsonRule::new(&[Pointer::parse("url")?])?);
/// let url = Some(UrlRule::default());
/// let mut extractor = Extractor::new(&Rule { part, url, ..Rule::default() });
/// let key = extractor.key(br#"{"url": "HTTP://Example.org:80/a#top"}"#)?;
/// assert_eq!(key, b"http://example.org/a");
/// # Ok(())
/// # }
/// ```
///
/// Several values give one key: each as a netstring (its length in decimal, `:`, its bytes, `,`), in the order of the rule.
/// So `("a", "bc")` is `1:a,2:bc,` and never the same as `("ab", "c")`.
#[derive(Debug, Clone)]
pub struct Extractor {
    finder: PartFinder,
    is_several: bool,
    text: TextRule,
    url: Option<Normalizer>,
    /// A key that is in no record as it is.
    own: Vec<u8>,
}

#[derive(Debug, Clone)]
enum PartFinder {
    Whole,
    Json(Finder),
    Csv(Box<Csv>),
    Fields(Fields),
}

impl Extractor {
    /// Returns an extractor for a rule. A rule of a later version of the URL rules, which this library doesn't know, is
    /// taken for the newest that it knows: refuse such a rule before.
    pub fn new(rule: &Rule) -> Self {
        let finder = match &rule.part {
            Part::Whole => PartFinder::Whole,
            Part::Json(own) => match Finder::new(own.pointers()) {
                Ok(finder) => PartFinder::Json(finder),
                // Its pointers were checked when the rule was made.
                Err(_) => PartFinder::Whole,
            },
            Part::Csv(own) => PartFinder::Csv(Box::new(Csv::new(own.columns(), own.delimiter()))),
            Part::Fields(own) => {
                PartFinder::Fields(Fields::new(own.numbers(), own.separator().clone()))
            }
        };
        let url = rule.url.map(|own| {
            let normalizer = Normalizer::new().rules(own.rules).unwrap_or_default();
            normalizer
                .sort_query(own.sort_query)
                .drop_www(own.drop_www)
                .pages(rule.pages.clone())
        });
        Extractor {
            finder,
            is_several: rule.part.values() > 1,
            text: rule.text,
            url,
            own: Vec::new(),
        }
    }

    /// Learns from a header where columns are that have names.
    ///
    /// # Errors
    /// The header hasn't one of them.
    pub fn set_header(&mut self, header: &[u8]) -> Result<(), ColumnError> {
        match &mut self.finder {
            PartFinder::Csv(csv) => csv.set_header(header),
            _ => Ok(()),
        }
    }

    /// Returns the key of a record.
    ///
    /// # Errors
    /// The record has no key, or one that isn't a URL where the rule wants one.
    pub fn key<'a>(&'a mut self, record: &'a [u8]) -> Result<&'a [u8], Stray> {
        let Some(url) = &mut self.url else {
            return part_of(
                &mut self.finder,
                self.text,
                self.is_several,
                record,
                &mut self.own,
            );
        };
        let part = part_of(
            &mut self.finder,
            self.text,
            self.is_several,
            record,
            &mut self.own,
        )?;
        match url.normalize(part) {
            Ok(url) => Ok(url),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the key of a record that has none by the rule and is to be kept all the same. If its part isn't a URL, that is
    /// the part. If the part is missing, it is the byte 0xFF and the whole record: no part of another record that is UTF-8 is
    /// the same.
    pub fn own_key<'a>(&'a mut self, record: &'a [u8], stray: &Stray) -> &'a [u8] {
        if stray.is_not_url() {
            let text = self.text;
            let part = part_of(
                &mut self.finder,
                text,
                self.is_several,
                record,
                &mut self.own,
            );
            return part.unwrap_or(record);
        }
        self.own.clear();
        self.own.push(OWN_KEY_MARK);
        self.own.extend_from_slice(record);
        &self.own
    }
}

/// Returns the part of a record that a rule names, before it is taken for a URL.
fn part_of<'a>(
    finder: &'a mut PartFinder,
    text: TextRule,
    is_several: bool,
    record: &'a [u8],
    own: &'a mut Vec<u8>,
) -> Result<&'a [u8], Stray> {
    let record = text.record(record);
    let is_as_it_is = !text.trim && !text.ignore_case;
    own.clear();
    let mut push = |value: &[u8]| {
        let value = text.key(value);
        if is_several {
            push_value(own, &value);
        } else {
            own.extend_from_slice(&value);
        }
    };
    let mut single: Option<&'a [u8]> = None;
    match finder {
        PartFinder::Whole => single = Some(record),
        PartFinder::Json(json) if is_several => json.each(record, &mut push)?,
        PartFinder::Json(json) => single = Some(json.find(record)?),
        PartFinder::Csv(csv) if is_several => csv.each(record, &mut push)?,
        PartFinder::Csv(csv) => csv.each(record, |field| single = Some(field))?,
        PartFinder::Fields(fields) if is_several => fields.each(record, &mut push)?,
        PartFinder::Fields(fields) => fields.each(record, |field| single = Some(field))?,
    }
    match single {
        None => Ok(own),
        Some(value) if is_as_it_is => Ok(value),
        Some(value) => {
            push(value);
            Ok(own)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Column, Separator};
    use crate::json::Pointer;
    use crate::rule::{CsvRule, FieldsRule, JsonRule};

    fn parts() -> [(Part, [&'static [u8]; 3]); 3] {
        let pointers = ["b", "a"].map(|path| Pointer::parse(path).expect("a path"));
        let columns = [Column::Number(2), Column::Number(1)];
        let json = JsonRule::new(&pointers).expect("two values");
        let csv = CsvRule::new(&columns, b',').expect("two columns");
        let fields = FieldsRule::new(&[2, 1], Separator::Blank).expect("two fields");
        [
            (
                Part::Json(json),
                [
                    b"{\"a\":\"Bc \",\"b\":\"a\"}",
                    b"{\"a\":\"c\",\"b\":\"aB\"}",
                    b"{\"a\":1}",
                ],
            ),
            (Part::Csv(csv), [b"\"Bc \",a", b"c,aB", b"1"]),
            (Part::Fields(fields), [b"Bc a", b"c aB", b"1"]),
        ]
    }

    #[test]
    fn several_values_have_their_lengths_before_them() {
        for (part, [first, second, missing]) in parts() {
            let is_blank = matches!(part, Part::Fields(_));
            let mut exact = Extractor::new(&Rule {
                part: part.clone(),
                ..Rule::default()
            });
            let expected: &[u8] = if is_blank {
                b"1:a,2:Bc,"
            } else {
                b"1:a,3:Bc ,"
            };
            assert_eq!(exact.key(first), Ok(expected));
            assert_eq!(exact.key(second), Ok(&b"2:aB,1:c,"[..]));
            let stray = exact.key(missing).expect_err("one is missing");
            assert!(!stray.is_not_url(), "{stray}");
            assert_eq!(exact.own_key(missing, &stray), [b"\xff", missing].concat());

            let text = TextRule {
                trim: true,
                ignore_case: true,
                ..TextRule::default()
            };
            let mut loose = Extractor::new(&Rule {
                part,
                text,
                ..Rule::default()
            });
            assert_eq!(loose.key(first), Ok(&b"1:a,2:bc,"[..]));
            assert_eq!(loose.key(second), Ok(&b"2:ab,1:c,"[..]));
        }
    }
}
