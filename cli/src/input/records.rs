//! `--json-key` and its like, for every command that takes items.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use everseen_keys::json::{Pointer, PointerError};
use everseen_keys::rule::{JsonRule, NoKey, Part};

use crate::error::CliError;
use crate::input::urls::Urls;

/// The part of the command line that says how items become keys.
#[derive(clap::Args, Clone, Default)]
pub struct KeyOptions {
    #[command(flatten)]
    pub records: Records,

    #[command(flatten)]
    pub urls: Urls,
}

/// The part of the command line that says which part of an item is its key.
#[derive(clap::Args, Clone, Default)]
pub struct Records {
    /// Compare JSON records, one an item, by this value in them: `url`, `meta.url`, or a JSON Pointer such as /meta/url.
    /// The whole record is printed, as it came. Given several times, all values together are the key. A store that a
    /// command creates keeps this, and later commands follow it (docs/guide/records.md)
    #[arg(long, value_name = "PATH", value_parser = pointer, help_heading = "Keys in records")]
    pub json_key: Vec<Pointer>,

    /// What to do with records that have no key, since the value is missing or null, or the record is not JSON: pass them
    /// on, compared as a whole, drop them, or fail, which ends the command. They are counted, and the first ones reported
    /// [default: as the store was created, or pass]
    #[arg(long, value_name = "WHAT", value_parser = no_key(), help_heading = "Keys in records")]
    pub no_key: Option<NoKey>,
}

fn pointer(path: &str) -> Result<Pointer, PointerError> {
    Pointer::parse(path)
}

fn no_key() -> impl TypedValueParser<Value = NoKey> {
    let names = [NoKey::Pass, NoKey::Drop, NoKey::Fail].map(NoKey::name);
    PossibleValuesParser::new(names).map(|name| NoKey::of_name(&name).unwrap_or_default())
}

impl KeyOptions {
    /// Returns whether any of these options is given.
    pub fn is_given(&self) -> bool {
        self.urls.is_given() || self.records.asked().is_some() || self.records.no_key.is_some()
    }

    /// Refuses an option that needs another one, where no store says what that one would.
    pub fn ensure_complete(&self) -> Result<(), CliError> {
        self.urls.ensure_url()?;
        match self.records.no_key {
            Some(_) if self.records.asked().is_none() => Err(CliError::NeedsRecordKey),
            _ => Ok(()),
        }
    }
}

impl Records {
    /// Returns the options that name a part of the record, as they were given; `None` if none was.
    pub fn asked(&self) -> Option<String> {
        let keys = self.json_key.iter();
        let options: Vec<_> = keys
            .map(|pointer| format!("--json-key {pointer}"))
            .collect();
        (!options.is_empty()).then(|| options.join(" "))
    }

    /// Returns which part of the record these options name.
    pub fn part(&self) -> Result<Part, CliError> {
        if self.json_key.is_empty() {
            return Ok(Part::Whole);
        }
        let no_key = self.no_key.unwrap_or_default();
        let rule = JsonRule::new(&self.json_key, no_key);
        rule.map(Part::Json).map_err(CliError::JsonKey)
    }
}
