//! Which differences of a key's characters don't count.

use std::borrow::Cow;

use icu_casemap::{CaseMapper, CaseMapperBorrowed};

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Which differences don't count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextRule {
    /// A carriage return at the end of a record, as in files of Windows.
    pub crlf: bool,
    /// White space at both ends of a key: space, tab, line feed, carriage return, form feed. A byte-order mark before it.
    pub trim: bool,
    /// The case of letters, by the simple case folding of Unicode: one character for one, so `ß` is not `ss`. Bytes that are
    /// not UTF-8 stay as they are.
    pub ignore_case: bool,
}

impl TextRule {
    /// Returns whether every difference counts.
    pub fn is_exact(&self) -> bool {
        *self == TextRule::default()
    }

    /// Returns a record without its line end.
    pub(crate) fn record<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        match self.crlf {
            true => record.strip_suffix(b"\r").unwrap_or(record),
            false => record,
        }
    }

    /// Returns a key without what doesn't count.
    pub(crate) fn key<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        let key = match self.trim {
            true => key
                .strip_prefix(BYTE_ORDER_MARK)
                .unwrap_or(key)
                .trim_ascii(),
            false => key,
        };
        match self.ignore_case {
            true => Cow::Owned(folded(key)),
            false => Cow::Borrowed(key),
        }
    }
}

fn folded(key: &[u8]) -> Vec<u8> {
    const MAPPER: CaseMapperBorrowed<'static> = CaseMapper::new();
    if key.is_ascii() {
        return key.to_ascii_lowercase();
    }
    let mut folded = Vec::with_capacity(key.len());
    for chunk in key.utf8_chunks() {
        for character in chunk.valid().chars() {
            let character = MAPPER.simple_fold(character);
            folded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        folded.extend_from_slice(chunk.invalid());
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(rule: TextRule, key: &[u8]) -> Vec<u8> {
        rule.key(rule.record(key)).into_owned()
    }

    #[test]
    fn only_what_the_rule_says_does_not_count() {
        let exact = TextRule::default();
        let line = b"\t A\xff \r";
        assert_eq!(key(exact, line), line);
        let crlf = TextRule {
            crlf: true,
            ..exact
        };
        assert_eq!(key(crlf, line), b"\t A\xff ");
        assert_eq!(key(crlf, b"a\r\r"), b"a\r");
        let trim = TextRule {
            trim: true,
            ..exact
        };
        assert_eq!(key(trim, line), b"A\xff");
        assert_eq!(key(trim, b" \x0b\n"), b"\x0b");
        for (marked, bare) in [
            ("\u{feff} a\u{feff}", "a\u{feff}"),
            (" \u{feff}a", "\u{feff}a"),
            ("\u{feff}\u{feff}", "\u{feff}"),
        ] {
            assert_eq!(key(trim, marked.as_bytes()), bare.as_bytes());
            assert_eq!(key(exact, marked.as_bytes()), marked.as_bytes());
        }
        let ignore_case = TextRule {
            ignore_case: true,
            ..exact
        };
        assert_eq!(key(ignore_case, line), b"\t a\xff \r");
    }

    #[test]
    fn case_is_folded_one_character_for_one() {
        let rule = TextRule {
            ignore_case: true,
            ..TextRule::default()
        };
        for (text, folded) in [
            ("ÄÖÜ", "äöü"),
            ("ΣΊΣΥΦΟς", "σίσυφοσ"),
            ("K", "k"),
            ("ẞß", "ßß"),
            ("İIı", "İiı"),
            ("ﬁ", "ﬁ"),
            ("Ꭰ", "Ꭰ"),
        ] {
            assert_eq!(str::from_utf8(&key(rule, text.as_bytes())), Ok(folded));
        }
        assert_eq!(key(rule, b"\xc3\x84\xff\xc3Z"), b"\xc3\xa4\xff\xc3z");
        // Once is enough, for every character.
        for character in '\0'..=char::MAX {
            let once = key(rule, character.to_string().as_bytes());
            assert_eq!(key(rule, &once), once, "{character:?}");
        }
    }
}
