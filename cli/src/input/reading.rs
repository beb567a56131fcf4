//! How lines become keys: as the store keeps it, as the command line says, and what is reported of it.

use std::path::Path;

use everseen_keys::json::Pointer;
use everseen_keys::rule::{Kept, NoKey, NotUrl, Part, Rule, UrlRule};
use everseen_keys::url::RULES;
use serde::Serialize;

use crate::error::CliError;
use crate::input::keying::TOLD;
use crate::input::records::KeyOptions;
use crate::output::format::{many, thousands};
use crate::output::progress::Tally;

/// How lines become keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading(Rule);

impl Reading {
    /// Returns what the command line says of a store that keeps no reading.
    pub fn asked(options: &KeyOptions) -> Result<Self, CliError> {
        let part = options.records.part()?;
        let url = options.urls.rule();
        match &part {
            Part::Json(own) if url.is_some() && own.pointers().len() > 1 => Err(CliError::Usage(
                "--url: needs a single --json-key, since several values together are not a URL",
            )),
            _ => Ok(Reading(Rule { part, url })),
        }
    }

    /// Returns how to read the lines for the store at `path`, which has this label. Refuses what contradicts the label.
    pub fn of_store(
        options: &KeyOptions,
        label: Option<&[u8]>,
        path: &Path,
    ) -> Result<Self, CliError> {
        let label = label.unwrap_or_default();
        let kept = match Kept::of_label(label) {
            Kept::Rule(kept) => kept,
            Kept::Nothing => {
                options.ensure_complete()?;
                return Self::asked(options);
            }
            Kept::Unknown => {
                return Err(CliError::UnknownReading {
                    path: path.to_owned(),
                    label: label.escape_ascii().to_string(),
                });
            }
        };
        let contradiction = |asked| CliError::OtherReading {
            path: path.to_owned(),
            asked,
            kept: kept.to_string(),
        };
        let part = part_of_store(options, &kept).map_err(contradiction)?;
        let url = url_of_store(options, &kept).map_err(contradiction)?;
        match url {
            // What earlier versions did is done to their stores for good.
            Some(own) if !(1..=RULES).contains(&own.rules) => Err(CliError::OtherRules {
                path: path.to_owned(),
                expected: RULES,
                got: own.rules,
            }),
            _ => Ok(Reading(Rule { part, url })),
        }
    }

    pub fn rule(&self) -> &Rule {
        &self.0
    }

    /// Returns the label of a store whose lines are read so.
    pub fn label(&self) -> Vec<u8> {
        self.0.label()
    }

    /// Returns what becomes of lines without a key; `None` where every line has one.
    pub fn no_key(&self) -> Option<NoKey> {
        match &self.0.part {
            Part::Whole => None,
            Part::Json(own) => Some(own.no_key),
        }
    }

    /// Returns what becomes of keys that aren't URLs; `None` where keys need not be.
    pub fn not_url(&self) -> Option<NotUrl> {
        self.0.url.map(|own| own.not_url)
    }

    /// Returns what a summary says about items without a key, and keys that were not URLs; nothing where there can't be
    /// any.
    pub fn summary(&self, tally: &Tally) -> String {
        let keyless = thousands(tally.keyless);
        let mut text = match self.no_key() {
            None => String::new(),
            Some(NoKey::Drop) => format!(", {keyless} without a key and dropped"),
            Some(_) => format!(", {keyless} of them without a key"),
        };
        let strays = thousands(tally.strays);
        text += &match self.not_url() {
            None => String::new(),
            Some(NotUrl::Pass) => format!(", {strays} of them not URLs"),
            Some(NotUrl::Drop) => format!(", {strays} not URLs and dropped"),
        };
        text
    }

    /// Returns the final reports on the items that were not reported one by one.
    pub fn rest(&self, tally: &Tally) -> Vec<String> {
        let beyond = |count: u64| count.checked_sub(TOLD).filter(|rest| *rest > 0);
        let mut reports = Vec::new();
        if let (Some(rest), Some(no_key)) = (beyond(tally.keyless), self.no_key()) {
            let have = if rest == 1 { "has" } else { "have" };
            let (lines, fate) = (many(rest, "more line"), fate_of_keyless(no_key));
            reports.push(format!("{lines} {have} no key; {fate}"));
        }
        if let (Some(rest), Some(not_url)) = (beyond(tally.strays), self.not_url()) {
            let what = match rest {
                1 => "1 more line is not a URL".to_owned(),
                _ => format!("{} are not URLs", many(rest, "more line")),
            };
            let fate = match not_url {
                NotUrl::Pass if rest > 1 => "kept as they are",
                _ => fate_of_stray(not_url),
            };
            reports.push(format!("{what}; {fate}"));
        }
        reports
    }
}

/// Returns which part of a line is its key in a store that keeps a rule, or the option that contradicts that.
fn part_of_store(options: &KeyOptions, kept: &Rule) -> Result<Part, String> {
    let records = &options.records;
    let mut part = kept.part.clone();
    match &mut part {
        Part::Whole => match (records.asked(), records.no_key) {
            (Some(asked), _) => return Err(asked),
            (None, Some(_)) => return Err("--no-key".to_owned()),
            (None, None) => {}
        },
        Part::Json(own) => {
            if let Some(asked) = records.asked()
                && records.json_key != own.pointers()
            {
                return Err(asked);
            }
            own.no_key = records.no_key.unwrap_or(own.no_key);
        }
    }
    Ok(part)
}

/// Does the same for URLs.
fn url_of_store(options: &KeyOptions, kept: &Rule) -> Result<Option<UrlRule>, String> {
    let urls = &options.urls;
    let contradiction = |asked: &str| Err(asked.to_owned());
    match kept.url {
        None if urls.url => contradiction("--url"),
        None => urls.refinement().map_or(Ok(None), contradiction),
        Some(_) if urls.no_url => contradiction("--no-url"),
        Some(own) if urls.sort_query && !own.sort_query => contradiction("--sort-query"),
        Some(own) if urls.drop_www && !own.drop_www => contradiction("--drop-www"),
        Some(own) => Ok(Some(UrlRule {
            not_url: urls.not_url.unwrap_or(own.not_url),
            ..own
        })),
    }
}

/// Returns what messages say that becomes of an item without a key.
pub fn fate_of_keyless(no_key: NoKey) -> &'static str {
    match no_key {
        NoKey::Drop => "dropped",
        NoKey::Pass | NoKey::Fail => "compared as a whole",
    }
}

/// Returns what messages say that becomes of a key that isn't a URL.
pub fn fate_of_stray(not_url: NotUrl) -> &'static str {
    match not_url {
        NotUrl::Pass => "kept as it is",
        NotUrl::Drop => "dropped",
    }
}

/// A reading in JSON.
#[derive(Serialize)]
pub struct JsonReading {
    part: &'static str,
    keys: Vec<String>,
    no_key: Option<&'static str>,
    url: bool,
    rules: Option<u32>,
    sort_query: bool,
    drop_www: bool,
    not_url: Option<&'static str>,
}

impl From<Rule> for JsonReading {
    fn from(rule: Rule) -> Self {
        let (part, keys, no_key) = match &rule.part {
            Part::Whole => ("whole", Vec::new(), None),
            Part::Json(own) => {
                let keys = own.pointers().iter().map(Pointer::text);
                ("json", keys.collect(), Some(own.no_key.name()))
            }
        };
        let url = rule.url;
        JsonReading {
            part,
            keys,
            no_key,
            url: url.is_some(),
            rules: url.map(|own| own.rules),
            sort_query: url.is_some_and(|own| own.sort_query),
            drop_www: url.is_some_and(|own| own.drop_www),
            not_url: url.map(|own| own.not_url.name()),
        }
    }
}
