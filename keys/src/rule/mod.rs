//! How records become keys, and the label in which a store keeps that.
//!
//! How records are separated is no part of it: the same record is the same key, whatever stands behind it.

mod label;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::json::{self, Pointer, PointerError};
use crate::url;

/// How a record becomes a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Which part of it.
    pub part: Part,
    /// Whether that part is a URL, and all spellings of one are one key.
    pub url: Option<UrlRule>,
}

/// Which part of a record is its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// Values of a JSON record.
    Json(JsonRule),
}

/// Which values of a JSON record are its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonRule {
    pointers: Vec<Pointer>,
    /// A preference, which changes no key of a record that has one.
    pub no_key: NoKey,
}

impl JsonRule {
    /// Returns the rule for these values.
    ///
    /// # Errors
    /// There is no pointer, one is given twice, or lies within another, or all together are longer than a label.
    pub fn new(pointers: &[Pointer], no_key: NoKey) -> Result<Self, PointerError> {
        json::Finder::new(pointers)?;
        let rule = JsonRule {
            pointers: pointers.to_vec(),
            no_key,
        };
        rule.ensure_label()?;
        Ok(rule)
    }

    /// Returns the ways to the values, in the order in which they make the key.
    pub fn pointers(&self) -> &[Pointer] {
        &self.pointers
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

/// The options of the command that ask for the rule, as messages name them.
impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        let mut what = match &self.part {
            Part::Whole if self.url.is_none() => return out.write_str("byte by byte"),
            Part::Whole => Vec::new(),
            Part::Json(own) => {
                let keys = own.pointers.iter();
                options.extend(keys.map(|pointer| format!("--json-key {pointer}")));
                if own.no_key != NoKey::default() {
                    options.push(format!("--no-key {}", own.no_key.name()));
                }
                vec!["by a key in JSON"]
            }
        };
        if let Some(own) = &self.url {
            what.push("as URLs");
            options.push("--url".to_owned());
            if own.sort_query {
                options.push("--sort-query".to_owned());
            }
            if own.drop_www {
                options.push("--drop-www".to_owned());
            }
            if own.not_url != NotUrl::default() {
                options.push(format!("--not-url {}", own.not_url.name()));
            }
        }
        write!(out, "{} ({})", what.join(", "), options.join(" "))
    }
}
