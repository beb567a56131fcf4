//! How lines become keys, and the label in which a store keeps that.
//!
//! How items are separated is not part of it: the same item is the same key, whatever stands behind it.

use std::fmt;
use std::path::Path;

use everseen_keys::url::RULES;
use serde::Serialize;

use crate::error::CliError;
use crate::input::urls::{NotUrl, TOLD, Urls};
use crate::output::format::{many, thousands};

/// How the labels of this command begin. Others belong to other programs.
const OWN_LABEL: &str = "everseen lines: ";

/// How lines become keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// By their bytes.
    #[default]
    Bytes,
    Urls(UrlReading),
}

/// How lines become URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlReading {
    /// The version of the normalisation.
    pub rules: u32,
    pub sort_query: bool,
    pub drop_www: bool,
    /// A preference, which changes no key.
    pub not_url: NotUrl,
}

impl Reading {
    /// Returns what the command line says of a store that keeps no reading.
    pub fn asked(urls: &Urls) -> Self {
        match urls.url {
            false => Reading::Bytes,
            true => Reading::Urls(UrlReading {
                rules: RULES,
                sort_query: urls.sort_query,
                drop_www: urls.drop_www,
                not_url: urls.not_url.unwrap_or_default(),
            }),
        }
    }

    /// Returns how to read the lines for the store at `path`, which has this label. Refuses what contradicts the label.
    pub fn of_store(urls: &Urls, label: Option<&[u8]>, path: &Path) -> Result<Self, CliError> {
        let label = label.unwrap_or_default();
        let kept = match Kept::of_label(label) {
            Kept::Reading(kept) => kept,
            Kept::Nothing => {
                urls.ensure_url()?;
                return Ok(Self::asked(urls));
            }
            Kept::Unknown => {
                return Err(CliError::UnknownReading {
                    path: path.to_owned(),
                    label: label.escape_ascii().to_string(),
                });
            }
        };
        let contradiction = |asked| {
            Err(CliError::OtherReading {
                path: path.to_owned(),
                asked,
                kept: kept.to_string(),
            })
        };
        match kept {
            Reading::Bytes if urls.url => contradiction("--url"),
            Reading::Bytes => urls.refinement().map_or(Ok(kept), contradiction),
            Reading::Urls(_) if urls.no_url => contradiction("--no-url"),
            // What earlier versions did is done to their stores for good.
            Reading::Urls(own) if !(1..=RULES).contains(&own.rules) => Err(CliError::OtherRules {
                path: path.to_owned(),
                expected: RULES,
                got: own.rules,
            }),
            Reading::Urls(own) if urls.sort_query && !own.sort_query => {
                contradiction("--sort-query")
            }
            Reading::Urls(own) if urls.drop_www && !own.drop_www => contradiction("--drop-www"),
            Reading::Urls(own) => Ok(Reading::Urls(UrlReading {
                not_url: urls.not_url.unwrap_or(own.not_url),
                ..own
            })),
        }
    }

    /// Returns the label of a store whose lines are read so.
    pub fn label(self) -> Vec<u8> {
        let words = match self {
            Reading::Bytes => "bytes".to_owned(),
            Reading::Urls(own) => {
                let sort = if own.sort_query { " sort-query" } else { "" };
                let drop = if own.drop_www { " drop-www" } else { "" };
                let (rules, not_url) = (own.rules, own.not_url.name());
                format!("url rules={rules}{sort}{drop} not-url={not_url}")
            }
        };
        format!("{OWN_LABEL}{words}").into_bytes()
    }

    /// Parses what a label says behind its beginning.
    fn parse(words: &[u8]) -> Option<Self> {
        let mut words = str::from_utf8(words).ok()?.split(' ');
        let reading = match words.next()? {
            "bytes" => Reading::Bytes,
            "url" => {
                let rules = words.next()?.strip_prefix("rules=")?.parse().ok()?;
                let mut own = UrlReading {
                    rules,
                    sort_query: false,
                    drop_www: false,
                    not_url: NotUrl::default(),
                };
                for word in words.by_ref() {
                    match word {
                        "sort-query" => own.sort_query = true,
                        "drop-www" => own.drop_www = true,
                        "not-url=pass" => own.not_url = NotUrl::Pass,
                        "not-url=drop" => own.not_url = NotUrl::Drop,
                        _ => return None,
                    }
                }
                Reading::Urls(own)
            }
            _ => return None,
        };
        words.next().is_none().then_some(reading)
    }

    /// Returns what a summary says about items that were not URLs; nothing where lines are no URLs.
    pub fn summary(self, strays: u64) -> String {
        match self {
            Reading::Bytes => String::new(),
            Reading::Urls(own) => match own.not_url {
                NotUrl::Pass => format!(", {} of them not URLs", thousands(strays)),
                NotUrl::Drop => format!(", {} not URLs and dropped", thousands(strays)),
            },
        }
    }

    /// Returns the final report on the items that were not reported one by one.
    pub fn rest(self, strays: u64) -> Option<String> {
        let rest = strays.checked_sub(TOLD).filter(|rest| *rest > 0)?;
        let Reading::Urls(own) = self else {
            return None;
        };
        Some(match (rest, own.not_url) {
            (1, kept) => format!("1 more line is not a URL; {}", kept.describe()),
            (_, NotUrl::Pass) => {
                let lines = many(rest, "more line");
                format!("{lines} are not URLs; kept as they are")
            }
            (_, NotUrl::Drop) => format!("{} are not URLs; dropped", many(rest, "more line")),
        })
    }
}

/// What the label of a store says about its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The store has no label, or one of another program.
    Nothing,
    Reading(Reading),
    /// The label is this command's, and this build doesn't know what it says.
    Unknown,
}

impl Kept {
    pub fn of_label(label: &[u8]) -> Self {
        match label.strip_prefix(OWN_LABEL.as_bytes()) {
            None => Kept::Nothing,
            Some(words) => Reading::parse(words).map_or(Kept::Unknown, Kept::Reading),
        }
    }
}

/// A reading in JSON.
#[derive(Serialize)]
pub struct JsonReading {
    url: bool,
    rules: Option<u32>,
    sort_query: bool,
    drop_www: bool,
    not_url: Option<&'static str>,
}

impl From<Reading> for JsonReading {
    fn from(reading: Reading) -> Self {
        let own = match reading {
            Reading::Bytes => None,
            Reading::Urls(own) => Some(own),
        };
        JsonReading {
            url: own.is_some(),
            rules: own.map(|own| own.rules),
            sort_query: own.is_some_and(|own| own.sort_query),
            drop_www: own.is_some_and(|own| own.drop_www),
            not_url: own.map(|own| own.not_url.name()),
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = match self {
            Reading::Bytes => return out.write_str("byte by byte"),
            Reading::Urls(own) => own,
        };
        let sort = if own.sort_query { " --sort-query" } else { "" };
        let drop = if own.drop_www { " --drop-www" } else { "" };
        let stray = match own.not_url {
            NotUrl::Pass => "",
            NotUrl::Drop => " --not-url drop",
        };
        write!(out, "as URLs (--url{sort}{drop}{stray})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Reading> {
        let mut all = vec![Reading::Bytes];
        for bits in 0..8 {
            all.push(Reading::Urls(UrlReading {
                rules: 1 + bits,
                sort_query: bits & 1 != 0,
                drop_www: bits & 2 != 0,
                not_url: if bits & 4 != 0 {
                    NotUrl::Drop
                } else {
                    NotUrl::Pass
                },
            }));
        }
        all
    }

    #[test]
    fn readings_go_there_and_back() {
        for reading in all() {
            let label = reading.label();
            assert_eq!(Kept::of_label(&label), Kept::Reading(reading), "{reading}");
        }
    }

    /// The labels that stores have: they never change.
    #[test]
    fn labels_are_these() {
        assert_eq!(Reading::Bytes.label(), b"everseen lines: bytes");
        let Some(last) = all().pop() else { return };
        let label = b"everseen lines: url rules=8 sort-query drop-www not-url=drop";
        assert_eq!(last.label(), label);
    }

    #[test]
    fn labels_of_others_say_nothing_and_of_later_builds_are_not_guessed() {
        for label in [&b""[..], b"other", b"everseen lines", b"\xFF\xFE"] {
            assert_eq!(Kept::of_label(label), Kept::Nothing);
        }
        for rest in [
            &b""[..],
            b"words",
            b"bytes more",
            b"url",
            b"url rules=",
            b"url rules=x",
            b"url rules=1 more",
            b"url rules=1  not-url=pass",
            b"url rules=4294967296",
            b"bytes\xFF",
        ] {
            let label = [OWN_LABEL.as_bytes(), rest].concat();
            assert_eq!(
                Kept::of_label(&label),
                Kept::Unknown,
                "{}",
                label.escape_ascii()
            );
        }
    }
}
