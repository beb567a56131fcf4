//! How lines become keys: as the store keeps it, as the command line says, and what is reported of it.

use std::path::Path;

use everseen::Store;
use everseen_keys::columns::Column;
use everseen_keys::rule::{Kept, NoKey, NotUrl, Part, Rule, UrlRule};
use everseen_keys::text::TextRule;
use everseen_keys::url::RULES;
use serde::Serialize;

use crate::error::{CliError, KeyError};
use crate::input::keying::TOLD;
use crate::input::records::{KeyOptions, Needs, Records};
use crate::output::format::{many, thousands};
use crate::output::progress::Tally;

/// What is said where a name may be misspelt.
const NONE_HAS_KEY: &str = "no record has a key: is its name spelled as it is there, case included? A new store keeps what it \
     was asked for, so remove it before you ask for another";

/// How lines become keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading(Rule);

impl Reading {
    /// Returns what the command line says of a store that keeps no reading.
    pub fn asked(options: &KeyOptions) -> Result<Self, CliError> {
        let part = options.records.part()?;
        let url = options.urls.rule();
        match url.is_some() && part.values() > 1 {
            true => Err(CliError::Usage(
                "--url: needs a key of one value, since several together are not a URL",
            )),
            false => Ok(Reading(Rule {
                part,
                no_key: options.records.no_key.unwrap_or_default(),
                text: options.text.rule(),
                url,
                pages: options.pages.rules(),
            })),
        }
    }

    /// Returns how to read the lines for the store at `path`. Refuses what contradicts its label.
    pub fn of_store(options: &KeyOptions, store: &Store, path: &Path) -> Result<Self, CliError> {
        let label = store.label().unwrap_or_default();
        let kept = match Kept::of_label(label) {
            Kept::Rule(kept) => kept,
            Kept::Nothing => {
                options.ensure_complete()?;
                return Self::asked(options);
            }
            Kept::Unknown => {
                return Err(KeyError::UnknownReading {
                    path: path.to_owned(),
                    label: label.escape_ascii().to_string(),
                }
                .into());
            }
        };
        let contradiction = |asked| KeyError::OtherReading {
            path: path.to_owned(),
            asked,
            kept: kept.to_string(),
            otherwise: match store.fullness().map(|fullness| fullness.keys) {
                // A first run that failed has left it.
                Ok(0) => "remove the store, which has no keys yet, and run this again",
                _ => "name another store",
            },
        };
        let part = part_of_store(&options.records, &kept).map_err(contradiction)?;
        let text = text_of_store(options.text.rule(), &kept).map_err(contradiction)?;
        let url = url_of_store(options, &kept).map_err(contradiction)?;
        if let Some(option) = options.pages.contradicting(&kept.pages) {
            return Err(contradiction(option.to_owned()).into());
        }
        let no_key = options.records.no_key.unwrap_or(kept.no_key);
        match url {
            // What earlier versions did is done to their stores for good.
            Some(own) if !(1..=RULES).contains(&own.rules) => Err(KeyError::OtherRules {
                path: path.to_owned(),
                expected: RULES,
                got: own.rules,
            }
            .into()),
            _ => Ok(Reading(Rule {
                part,
                no_key,
                text,
                url,
                pages: kept.pages.clone(),
            })),
        }
    }

    /// Returns how to read the keys themselves.
    pub fn of_keys(&self) -> Self {
        Reading(Rule {
            part: Part::Whole,
            no_key: NoKey::default(),
            ..self.0.clone()
        })
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
        (self.0.part != Part::Whole).then_some(self.0.no_key)
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
            if tally.keyless == tally.items {
                reports.push(NONE_HAS_KEY.to_owned());
            }
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
fn part_of_store(records: &Records, kept: &Rule) -> Result<Part, String> {
    let mut part = kept.part.clone();
    let is_same = match &part {
        Part::Whole => false,
        Part::Json(own) => records.json_key == own.pointers(),
        Part::Csv(own) => records.csv_key == own.columns(),
        Part::Fields(own) => {
            let numbers = own.numbers().iter().map(|number| *number as u64);
            numbers.eq(records.key_field.iter().copied())
        }
    };
    if records.names_part() && !is_same {
        return Err(match records.part() {
            Ok(asked) => asked_part(asked),
            Err(_) => "the key".to_owned(),
        });
    }
    refine(records, &mut part)?;
    Ok(part)
}

/// Returns the options that name a part.
fn asked_part(part: Part) -> String {
    let rule = Rule {
        part,
        ..Rule::default()
    };
    rule.part_options()
}

/// Does with a part what the other options say, or returns the one that contradicts it.
fn refine(records: &Records, part: &mut Part) -> Result<(), String> {
    let options = records.given_refinements();
    for (option, needs) in options {
        let fits = match (needs, &mut *part) {
            (Needs::Any, part) => *part != Part::Whole,
            (Needs::Csv, Part::Csv(own)) if option == "--no-header" => {
                own.has_header = false;
                own.columns()
                    .iter()
                    .all(|column| matches!(column, Column::Number(_)))
            }
            (Needs::Csv, Part::Csv(own)) => records.asked_delimiter() == Some(own.delimiter()),
            (Needs::Fields, Part::Fields(own)) => {
                records.field_separator.as_ref() == Some(own.separator())
            }
            _ => false,
        };
        if !fits {
            return Err(option.to_owned());
        }
    }
    Ok(())
}

/// Returns which differences count for nothing, or the option that contradicts the store.
fn text_of_store(asked: TextRule, kept: &Rule) -> Result<TextRule, String> {
    let own = kept.text;
    for (option, is_given, is_kept) in [
        ("--ignore-case", asked.ignore_case, own.ignore_case),
        ("--trim", asked.trim, own.trim),
        ("--crlf", asked.crlf, own.crlf),
    ] {
        if is_given && !is_kept {
            return Err(option.to_owned());
        }
    }
    Ok(own)
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
    crlf: bool,
    trim: bool,
    ignore_case: bool,
    url: bool,
    rules: Option<u32>,
    sort_query: bool,
    drop_www: bool,
    not_url: Option<&'static str>,
    drop_query: Vec<String>,
    keep_query: Vec<String>,
    drop_session_path: bool,
    ignore_scheme: bool,
    drop_trailing_slash: bool,
    lower_path: bool,
}

impl From<Rule> for JsonReading {
    fn from(rule: Rule) -> Self {
        let part = match &rule.part {
            Part::Whole => "whole",
            Part::Json(_) => "json",
            Part::Csv(_) => "csv",
            Part::Fields(_) => "fields",
        };
        let url = rule.url;
        JsonReading {
            part,
            keys: rule.part.names(),
            no_key: (part != "whole").then(|| rule.no_key.name()),
            crlf: rule.text.crlf,
            trim: rule.text.trim,
            ignore_case: rule.text.ignore_case,
            url: url.is_some(),
            rules: url.map(|own| own.rules),
            sort_query: url.is_some_and(|own| own.sort_query),
            drop_www: url.is_some_and(|own| own.drop_www),
            not_url: url.map(|own| own.not_url.name()),
            drop_query: rule.pages.drop_query,
            keep_query: rule.pages.keep_query,
            drop_session_path: rule.pages.drop_session_path,
            ignore_scheme: rule.pages.ignore_scheme,
            drop_trailing_slash: rule.pages.drop_trailing_slash,
            lower_path: rule.pages.lower_path,
        }
    }
}
