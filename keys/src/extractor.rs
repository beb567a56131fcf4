//! Does what a rule says: takes the key out of a record.

use crate::json::{Finder, JsonError};
use crate::rule::{Part, Rule};
use crate::url::{Normalizer, UrlError};

/// What comes before a record that is its own key because it has none: a byte that no key has, for keys are UTF-8.
const OWN_KEY_MARK: u8 = 0xFF;

/// Why a record has no key by a rule.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stray {
    /// The part that should be the key isn't there.
    #[error("no key: {0}")]
    NoKey(#[from] JsonError),
    /// The key isn't a URL.
    #[error("no URL: {0}")]
    NotUrl(#[from] UrlError),
}

/// Takes keys out of records. It keeps memory from one record to the next, so one is needed for each thread.
///
/// ```
/// use everseen_keys::extractor::Extractor;
/// use everseen_keys::json::Pointer;
/// use everseen_keys::rule::{JsonRule, NoKey, Part, Rule, UrlRule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let part = Part::Json(JsonRule::new(&[Pointer::parse("url")?], NoKey::Pass)?);
/// let url = Some(UrlRule::default());
/// let mut extractor = Extractor::new(&Rule { part, url });
/// let key = extractor.key(br#"{"url": "HTTP://Example.org:80/a#top"}"#)?;
/// assert_eq!(key, b"http://example.org/a");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Extractor {
    json: Option<Finder>,
    url: Option<Normalizer>,
    /// A key that is in no record as it is.
    own: Vec<u8>,
}

impl Extractor {
    /// Returns an extractor for a rule. A rule of a later version of the URL rules, which this library doesn't know, is
    /// taken for the newest that it knows: refuse such a rule before.
    pub fn new(rule: &Rule) -> Self {
        let json = match &rule.part {
            Part::Whole => None,
            // Its pointers were checked when the rule was made.
            Part::Json(own) => Finder::new(own.pointers()).ok(),
        };
        let url = rule.url.map(|own| {
            let normalizer = Normalizer::new().rules(own.rules).unwrap_or_default();
            normalizer.sort_query(own.sort_query).drop_www(own.drop_www)
        });
        Extractor {
            json,
            url,
            own: Vec::new(),
        }
    }

    /// Returns the key of a record.
    ///
    /// # Errors
    /// The record has no key, or one that isn't a URL where the rule wants one.
    pub fn key<'a>(&'a mut self, record: &'a [u8]) -> Result<&'a [u8], Stray> {
        let part = match &mut self.json {
            None => record,
            Some(json) => json.find(record)?,
        };
        match &mut self.url {
            None => Ok(part),
            Some(url) => match url.normalize(part) {
                Ok(url) => Ok(url),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// Returns the key of a record that has none by the rule and is to be kept all the same. If its part isn't a URL, that is
    /// the part. If the part is missing, it is the byte 0xFF and the whole record: no part of another record is the same.
    pub fn own_key<'a>(&'a mut self, record: &'a [u8], stray: &Stray) -> &'a [u8] {
        match (&mut self.json, stray) {
            (Some(json), Stray::NotUrl(_)) => json.find(record).unwrap_or(record),
            (None, Stray::NotUrl(_)) => record,
            (_, Stray::NoKey(_)) => {
                self.own.clear();
                self.own.push(OWN_KEY_MARK);
                self.own.extend_from_slice(record);
                &self.own
            }
        }
    }
}
