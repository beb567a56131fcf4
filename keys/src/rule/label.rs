//! The label in which a store keeps a rule: FORMAT.md, "Keys of the command".

use std::fmt::Write;

use super::{JsonRule, Kept, NoKey, NotUrl, Part, Rule, UrlRule};
use crate::json::{self, Pointer, PointerError};

/// How the labels of the command begin. Others belong to other programs.
const OWN_LABEL: &str = "everseen lines: ";

/// The most bytes of pointers in a label. A store keeps 4096 bytes, and the rest of the rule wants some, too.
const MOST_POINTERS: usize = 3072;

impl Rule {
    /// Returns the label of a store with this rule.
    pub fn label(&self) -> Vec<u8> {
        let mut words = Vec::new();
        match &self.part {
            Part::Whole if self.url.is_none() => words.push("bytes".to_owned()),
            Part::Whole => {}
            Part::Json(own) => words.push(own.words()),
        }
        if let Some(own) = &self.url {
            let sort = if own.sort_query { " sort-query" } else { "" };
            let drop = if own.drop_www { " drop-www" } else { "" };
            let (rules, not_url) = (own.rules, own.not_url.name());
            words.push(format!("url rules={rules}{sort}{drop} not-url={not_url}"));
        }
        format!("{OWN_LABEL}{}", words.join(" ")).into_bytes()
    }

    /// Parses what a label says behind its beginning.
    fn parse(words: &[u8]) -> Option<Self> {
        let mut words = str::from_utf8(words).ok()?.split(' ').peekable();
        let mut rule = Rule::default();
        match *words.peek()? {
            "bytes" => {
                words.next();
                return words.next().is_none().then_some(rule);
            }
            "json" => {
                words.next();
                let own = std::iter::from_fn(|| words.next_if(|word| *word != "url"));
                rule.part = Part::Json(JsonRule::of_words(own)?);
            }
            _ => {}
        }
        match words.next() {
            None => {}
            Some("url") => rule.url = Some(UrlRule::of_words(words)?),
            Some(_) => return None,
        }
        Some(rule)
    }
}

impl JsonRule {
    fn words(&self) -> String {
        let mut words = format!("json rules={}", json::RULES);
        for pointer in &self.pointers {
            let _ = write!(words, " key={}", encoded(pointer));
        }
        words + " no-key=" + self.no_key.name()
    }

    /// Refuses more pointers than a label has room for.
    pub(super) fn ensure_label(&self) -> Result<(), PointerError> {
        let lengths = self.pointers.iter().map(|each| encoded(each).len() + 5);
        match lengths.sum::<usize>() > MOST_POINTERS {
            true => Err(PointerError::TooMany),
            false => Ok(()),
        }
    }

    fn of_words<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let rules = words.next()?.strip_prefix("rules=")?;
        if rules != json::RULES.to_string() {
            return None;
        }
        let (mut pointers, mut no_key) = (Vec::new(), None);
        for word in words {
            match word.split_once('=')? {
                ("key", pointer) if no_key.is_none() => pointers.push(decoded(pointer)?),
                ("no-key", name) if no_key.is_none() => no_key = Some(NoKey::of_name(name)?),
                _ => return None,
            }
        }
        JsonRule::new(&pointers, no_key?).ok()
    }
}

impl UrlRule {
    fn of_words<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let rules = words.next()?.strip_prefix("rules=")?.parse().ok()?;
        let mut own = UrlRule {
            rules,
            ..UrlRule::default()
        };
        for word in words {
            match word {
                "sort-query" => own.sort_query = true,
                "drop-www" => own.drop_www = true,
                _ => own.not_url = NotUrl::of_name(word.strip_prefix("not-url=")?)?,
            }
        }
        Some(own)
    }
}

/// A pointer without spaces, in ASCII.
fn encoded(pointer: &Pointer) -> String {
    let mut text = String::new();
    for byte in pointer.text().bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn decoded(text: &str) -> Option<Pointer> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        bytes.push(match byte {
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?
            }
            byte => *byte,
        });
    }
    let pointer = Pointer::parse(str::from_utf8(&bytes).ok()?).ok()?;
    // Every pointer has one spelling, or two labels would be one rule.
    (encoded(&pointer) == text).then_some(pointer)
}

impl Kept {
    /// Returns what a label says.
    pub fn of_label(label: &[u8]) -> Self {
        match label.strip_prefix(OWN_LABEL.as_bytes()) {
            None => Kept::Nothing,
            Some(words) => Rule::parse(words).map_or(Kept::Unknown, Kept::Rule),
        }
    }
}
