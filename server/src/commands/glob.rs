//! Patterns of names.

/// Returns whether a name is one of a pattern, by Redis' rules: `*`, `?`, `[a-c]`, `[^a]`, `\`.
pub fn glob_matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where the last star stands, and how much it takes: so no pattern takes longer than its length times the name's.
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    // Behind it are stars alone, which fit nothing, too.
    let end = pattern.iter().rposition(|&byte| byte != b'*');
    let end = end.map_or(0, |last| last + 1);
    loop {
        if place == name.len() && at >= end {
            return true;
        }
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
                continue;
            }
            Some(_) if place < name.len() => one_matches(&pattern[at..], name[place]),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => {
                at += length;
                place += 1;
            }
            (None, Some((begin, taken))) if taken < name.len() => {
                star = Some((begin, taken + 1));
                at = begin + 1;
                place = taken + 1;
            }
            (None, _) => return false,
        }
    }
}

/// Returns how long the front of a pattern is that one byte fits.
fn one_matches(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let is_negated = rest.first() == Some(&b'^');
            let mut at = usize::from(is_negated);
            let mut found = false;
            while at < rest.len() && rest[at] != b']' {
                match rest[at..] {
                    [b'\\', escaped, ..] => {
                        found |= escaped == byte;
                        at += 2;
                    }
                    [from, b'-', to, ..] if to != b']' => {
                        found |= (from.min(to)..=from.max(to)).contains(&byte);
                        at += 3;
                    }
                    [one, ..] => {
                        found |= one == byte;
                        at += 1;
                    }
                    [] => break,
                }
            }
            // The bracket that opens, and the one that closes.
            (found != is_negated).then_some((at + 2).min(pattern.len()))
        }
        [plain, ..] => (*plain == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*b*b*", "xbxbx", true),
            ("*b*b*", "xbx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[a-b]llo", "hcllo", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("[", "a", false),
            ("abc", "abcd", false),
            ("abc*d", "abcd", true),
        ] {
            let found = glob_matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!glob_matches(pattern.as_bytes(), &[b'a'; 10_000]));
        let stars = [b"k", &[b'*'; 1 << 20][..], b"a"].concat();
        assert!(!glob_matches(&stars, b"k"));
        assert!(glob_matches(&stars, b"ka"));
    }
}
