//! The label in which a store keeps a rule: FORMAT.md, "Keys of the command".

use std::iter::Peekable;
use std::str::Split;

use super::names::{decoded, encoded};
use super::{CsvRule, FieldsRule, JsonRule, Kept, NoKey, NotUrl, Part, Rule, UrlRule};
use crate::columns::{self, Column, Separator};
use crate::json::{self, Pointer};
use crate::text::TextRule;
use crate::url::pages::{PAGE_RULES, PageRules, query_name};

/// How the labels of the command begin. Others belong to other programs.
const OWN_LABEL: &str = "everseen lines: ";

/// The words of a label, apart by one space.
type Words<'a> = Peekable<Split<'a, char>>;

impl Rule {
    /// Returns the label of a store with this rule.
    pub fn label(&self) -> Vec<u8> {
        let mut words = part_words(&self.part);
        if self.part != Part::Whole {
            words.push(format!("no-key={}", self.no_key.name()));
        }
        if !self.text.is_exact() {
            words.push("text".to_owned());
            let TextRule {
                crlf,
                trim,
                ignore_case,
            } = self.text;
            let all = [(crlf, "crlf"), (trim, "trim"), (ignore_case, "ignore-case")];
            let given = all.into_iter().filter(|(is_given, _)| *is_given);
            words.extend(given.map(|(_, word)| word.to_owned()));
        }
        if let Some(own) = &self.url {
            let sort = if own.sort_query { " sort-query" } else { "" };
            let drop = if own.drop_www { " drop-www" } else { "" };
            let (rules, not_url) = (own.rules, own.not_url.name());
            words.push(format!("url rules={rules}{sort}{drop} not-url={not_url}"));
        }
        if !self.pages.is_standard() {
            words.push(page_words(&self.pages));
        }
        if words.is_empty() {
            words.push("bytes".to_owned());
        }
        format!("{OWN_LABEL}{}", words.join(" ")).into_bytes()
    }

    /// Parses what a label says behind its beginning.
    fn parse(words: &[u8]) -> Option<Self> {
        let text = str::from_utf8(words).ok()?;
        if text == "bytes" {
            return Some(Rule::default());
        }
        let mut words = text.split(' ').peekable();
        let part = match *words.peek()? {
            "json" => Part::Json(json_of_words(&mut words)?),
            "csv" => Part::Csv(csv_of_words(&mut words)?),
            "fields" => Part::Fields(fields_of_words(&mut words)?),
            _ => Part::Whole,
        };
        let mut rule = Rule {
            part,
            ..Rule::default()
        };
        if rule.part != Part::Whole {
            rule.no_key = NoKey::of_name(words.next()?.strip_prefix("no-key=")?)?;
        }
        if words.next_if_eq(&"text").is_some() {
            rule.text = TextRule {
                crlf: words.next_if_eq(&"crlf").is_some(),
                trim: words.next_if_eq(&"trim").is_some(),
                ignore_case: words.next_if_eq(&"ignore-case").is_some(),
            };
            if rule.text.is_exact() {
                return None;
            }
        }
        match words.next() {
            // All says something.
            None => (rule != Rule::default()).then_some(rule),
            Some("url") => {
                let own = std::iter::from_fn(|| words.next_if(|word| *word != "pages"));
                rule.url = Some(UrlRule::of_words(own)?);
                if words.next().is_some() {
                    rule.pages = pages_of_words(words)?;
                }
                Some(rule)
            }
            Some(_) => None,
        }
    }
}

fn page_words(pages: &PageRules) -> String {
    let mut words = format!("pages rules={PAGE_RULES}");
    let lists = [
        ("drop-query", &pages.drop_query),
        ("keep-query", &pages.keep_query),
    ];
    for (word, names) in lists {
        for name in names {
            words += &format!(" {word}={}", encoded(name.as_bytes()));
        }
    }
    for (word, is_given) in [
        ("drop-session-path", pages.drop_session_path),
        ("ignore-scheme", pages.ignore_scheme),
        ("drop-trailing-slash", pages.drop_trailing_slash),
        ("lower-path", pages.lower_path),
    ] {
        if is_given {
            words += &format!(" {word}");
        }
    }
    words
}

fn pages_of_words(mut words: Words) -> Option<PageRules> {
    if words.next()?.strip_prefix("rules=")? != PAGE_RULES.to_string() {
        return None;
    }
    let names = |words: &mut Words, name| -> Option<Vec<String>> {
        let names = values(words, name).into_iter().map(|name| {
            let name = String::from_utf8(decoded(name)?).ok()?;
            query_name(&name).ok()
        });
        names.collect()
    };
    let drop_query = names(&mut words, "drop-query=")?;
    let keep_query = names(&mut words, "keep-query=")?;
    let mut has = |word| words.next_if_eq(&word).is_some();
    let pages = PageRules {
        drop_query,
        keep_query,
        drop_session_path: has("drop-session-path"),
        ignore_scheme: has("ignore-scheme"),
        drop_trailing_slash: has("drop-trailing-slash"),
        lower_path: has("lower-path"),
    };
    (words.next().is_none() && !pages.is_standard()).then_some(pages)
}

fn part_words(part: &Part) -> Vec<String> {
    let mut words = Vec::new();
    match part {
        Part::Whole => {}
        Part::Json(own) => {
            words.push(format!("json rules={}", json::RULES));
            let keys = own.pointers.iter();
            words.extend(keys.map(|each| format!("key={}", encoded(each.text().as_bytes()))));
        }
        Part::Csv(own) => {
            let rules = columns::RULES;
            let header = if own.has_header { "yes" } else { "no" };
            let delimiter = encoded(&[own.delimiter]);
            words.push(format!(
                "csv rules={rules} delimiter={delimiter} header={header}"
            ));
            words.extend(own.columns.iter().map(|column| match column {
                Column::Name(name) => format!("name={}", encoded(name.as_bytes())),
                Column::Number(number) => format!("column={number}"),
            }));
        }
        Part::Fields(own) => {
            words.push(format!("fields rules={}", columns::RULES));
            words.push(match &own.separator {
                Separator::Blank => "separator=blank".to_owned(),
                Separator::Bytes(bytes) => format!("separator-bytes={}", encoded(bytes)),
            });
            let numbers = own.numbers.iter();
            words.extend(numbers.map(|number| format!("field={number}")));
        }
    }
    words
}

/// Takes the name of a part and the version of its rules.
fn known_rules(words: &mut Words, rules: u32) -> Option<()> {
    words.next()?;
    (words.next()?.strip_prefix("rules=")? == rules.to_string()).then_some(())
}

/// Takes the values of all words of one name that come next.
fn values<'a>(words: &mut Words<'a>, name: &str) -> Vec<&'a str> {
    let of_name = |word: &&'a str| word.strip_prefix(name).is_some();
    let mut values = Vec::new();
    while let Some(word) = words.next_if(of_name) {
        values.extend(word.strip_prefix(name));
    }
    values
}

fn json_of_words(words: &mut Words) -> Option<JsonRule> {
    known_rules(words, json::RULES)?;
    let mut pointers = Vec::new();
    for value in values(words, "key=") {
        let text = String::from_utf8(decoded(value)?).ok()?;
        let pointer = Pointer::parse(&text).ok()?;
        // `a.b` is `/a/b`.
        pointers.push((pointer.text() == text).then_some(pointer)?);
    }
    JsonRule::new(&pointers).ok()
}

fn csv_of_words(words: &mut Words) -> Option<CsvRule> {
    known_rules(words, columns::RULES)?;
    let delimiter = decoded(words.next()?.strip_prefix("delimiter=")?)?;
    let [delimiter] = delimiter[..] else {
        return None;
    };
    let has_header = match words.next()? {
        "header=yes" => true,
        "header=no" => false,
        _ => return None,
    };
    let mut columns = Vec::new();
    while let Some(word) = words.next_if(|word| !word.starts_with("no-key=")) {
        let column = match word.split_once('=')? {
            ("name", name) => Column::Name(String::from_utf8(decoded(name)?).ok()?),
            ("column", number) => number_of(number).map(Column::Number)?,
            _ => return None,
        };
        // Digits are a number.
        columns.push((Column::parse(&column.text()).ok()? == column).then_some(column)?);
    }
    let rule = CsvRule::new(&columns, delimiter).ok()?;
    Some(CsvRule { has_header, ..rule })
}

fn fields_of_words(words: &mut Words) -> Option<FieldsRule> {
    known_rules(words, columns::RULES)?;
    let separator = match words.next()?.split_once('=')? {
        ("separator", "blank") => Separator::Blank,
        ("separator-bytes", bytes) => Separator::Bytes(decoded(bytes)?),
        _ => return None,
    };
    let numbers: Option<Vec<_>> = values(words, "field=").into_iter().map(number_of).collect();
    FieldsRule::new(&numbers?, separator).ok()
}

fn number_of(text: &str) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
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

impl Kept {
    /// Returns what a label says.
    pub fn of_label(label: &[u8]) -> Self {
        match label.strip_prefix(OWN_LABEL.as_bytes()) {
            None => Kept::Nothing,
            Some(words) => Rule::parse(words).map_or(Kept::Unknown, Kept::Rule),
        }
    }
}
