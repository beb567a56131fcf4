//! Where the parser departs from the standard, and lines that are not UTF-8.

use super::*;

fn by_rules(rules: u32, line: &[u8]) -> Result<String, UrlError> {
    let normalizer = Normalizer::new().rules(rules);
    normalized(normalizer.expect("a version that there is"), line)
}

/// What the standard says, not what the parser does.
#[test]
fn segments_that_look_like_drives_are_ordinary_outside_of_file_urls() {
    for (line, url) in [
        ("http://example.com/a/c:/..", "http://example.com/a/"),
        ("http://example.com/a/C|/../b", "http://example.com/a/b"),
        ("http://example.com/c:/../b?q#f", "http://example.com/b?q"),
        ("http://example.com/c:", "http://example.com/c:"),
        ("http://example.com/C|/x", "http://example.com/C|/x"),
        (
            "http://u:p@Example.com:81\\c:\\.\\%2E%2e\\b c",
            "http://u:p@example.com:81/b%20c",
        ),
        (" ws:example.com/a/c\t:/.\n.", "ws://example.com/a/"),
        ("foo://h/a/c:/../b", "foo://h/a/b"),
        ("foo:///c:/..", "foo:///"),
        ("foo:/c:/../b", "foo:/b"),
        ("foo:/c:/..//b", "foo:/.//b"),
        ("foo:/a\\c:\\..", "foo:/a\\c:\\.."),
        // These are no segments of a path.
        ("http://c:/..", "http://c/"),
        ("http://a/?/c:/..", "http://a/?/c:/.."),
        ("foo:c:/..", "foo:c:/.."),
    ] {
        assert_eq!(plain(line), Ok(url.to_owned()), "{line:?}");
        assert_eq!(plain(url), Ok(url.to_owned()), "again: {url:?}");
    }
    let before = by_rules(1, b"http://example.com/a/c:/..");
    assert_eq!(before, Ok("http://example.com/a/c:/".to_owned()));
}

#[test]
fn file_urls_are_as_the_standard_has_them() {
    for (line, url) in [
        ("file:c:\\foo\\bar", "file:///c:/foo/bar"),
        ("  File:c|////foo\\bar.html", "file:///c:////foo/bar.html"),
        ("file:C|/foo?q#f", "file:///C:/foo?q"),
        ("file:/C|/", "file:///C:/"),
        ("file://C|", "file:///C:"),
        ("file://C|/x", "file:///C:/x"),
        ("file:", "file:///"),
        ("file://", "file:///"),
        ("file:?q", "file:///?q"),
        ("file:a/../b", "file:///b"),
        ("file:///C:/../..", "file:///C:/"),
        ("file:///C:/a/../../b", "file:///C:/b"),
        ("file:///c:/d:/..", "file:///c:/"),
        ("file:///a/c:/..", "file:///a/"),
        ("file:///a/../c|", "file:///c:"),
        ("file:///c:/../d|", "file:///c:/d|"),
        ("file://x/a/C:/..", "file://x/a/"),
        ("file://x/C:/..", "file://x/C:/"),
        ("file://example.net/C:/", "file://example.net/C:/"),
        ("file://[1::8]/C:/", "file://[1::8]/C:/"),
        ("file://localhost/c:/a", "file:///c:/a"),
        ("file:///x/../a|", "file:///a:"),
        ("file:///x/%2e%2e/a|/b", "file:///a:/b"),
        ("file:////foo", "file:////foo"),
        ("file:////one/two", "file:////one/two"),
        ("file://localhost////foo", "file://////foo"),
        ("file://localhost//a//../..//foo", "file://///foo"),
        ("file:\\\\\\\\one\\two", "file:////one/two"),
        ("file://a//C|/", "file://a//C|/"),
        ("file:///a b^{é", "file:///a%20b^%7B%C3%A9"),
    ] {
        assert_eq!(plain(line), Ok(url.to_owned()), "{line:?}");
        assert_eq!(plain(url), Ok(url.to_owned()), "again: {url:?}");
    }
    assert_eq!(by_rules(1, b"file://a//C|/"), Err(UrlError::Refused));
    assert_eq!(by_rules(1, b"file:////foo"), Ok("file:///foo".to_owned()));
}

#[test]
fn bytes_that_are_not_utf8_are_percent_encoded() {
    for (line, url) in [
        (&b"http://a.org/caf\xe9"[..], "http://a.org/caf%E9"),
        (b"http://a.org/?q=\xfc&r=\xff", "http://a.org/?q=%FC&r=%FF"),
        // What is UTF-8 stays it beside them, also where only its beginning is.
        (
            b"http://a.org/\xc3\xa9\xe9\xe2\x82/",
            "http://a.org/%C3%A9%E9%E2%82/",
        ),
        (b"\xef\xbb\xbfhttp://a.org/\xe9#\xe9", "http://a.org/%E9"),
        (b"http://us\xe9r@a.org/", "http://us%E9r@a.org/"),
        (b"data:,\xe9", "data:,%E9"),
        (b"http://a.org/\xe9/c:/..", "http://a.org/%E9/"),
        (
            b"http://b\xc3\xbccher.example/\xfc",
            "http://xn--bcher-kva.example/%FC",
        ),
    ] {
        let shown = line.escape_ascii();
        let got = normalized(Normalizer::new(), line);
        assert_eq!(got, Ok(url.to_owned()), "{shown}");
        let got = normalized(Normalizer::new(), url.as_bytes());
        assert_eq!(got, Ok(url.to_owned()), "again: {shown}");
    }
    let refused = by_rules(1, b"http://a/\xff");
    assert_eq!(refused, Err(UrlError::NotUtf8 { offset: 9 }));
}

#[test]
fn the_options_hold_for_paths_that_are_made_here() {
    let both = Normalizer::new().drop_www(true).sort_query(true);
    let line = b"http://u@www.a.org:8/x/c:/..?b&a";
    let got = normalized(both.clone(), line);
    assert_eq!(got, Ok("http://u@a.org:8/x/?a&b".to_owned()));
    let got = normalized(both, b"file://www.a.org/c|?b&a");
    assert_eq!(got, Ok("file://www.a.org/c:?a&b".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// The versions agree except on what the second is about.
    #[test]
    fn versions_differ_only_where_the_parser_departs(line in lines()) {
        let (before, now) = (by_rules(1, &line), by_rules(2, &line));
        let text = String::from_utf8_lossy(&line).to_lowercase().replace(['\t', '\r', '\n'], "");
        let is_new = str::from_utf8(&line).is_err()
            || text.contains("file:")
            || text.contains("c:") || text.contains("c|") || text.contains("b:");
        prop_assert!(before == now || is_new, "{:?}: {:?}, {:?}", line.escape_ascii().to_string(), before, now);
    }

    /// What is made here is what the parser makes of paths in which it does not depart.
    #[test]
    fn paths_are_those_of_the_parser_where_it_does_not_depart(
        pieces in prop::collection::vec(prop::sample::select(&[
            "/", "\\", "a", "B", ".", "..", "%2e", "%2E", "é", " ", "{", "^", "|", "%", "\u{7f}", "\"", "'", "ab",
        ][..]), 0..12),
    ) {
        let path = pieces.concat();
        let path = path.trim_start_matches(['/', '\\']);
        let line_has_drive = path.split(['/', '\\']).any(standard::is_drive);
        for rest in ["", "?q=1 2", "#f"] {
            let url = Url::parse(&format!("file:///x/{path}{rest}"));
            let mut url = url.expect("a file URL");
            url.set_fragment(None);
            let made = standard::parse(&format!("file:///x/{path}{rest}"));
            let made = made.and_then(Result::ok).map(|written| written.text);
            let path = made.as_deref().and_then(|made| made.strip_prefix("file:///"));
            // It would drop slashes that `..` leaves at the beginning, and leave a drive there as it is. A drive that is
            // not the first segment stops its `..` too.
            let departs = path.is_some_and(|path| {
                let first = path.split(['/', '?']).next().unwrap_or_default();
                path.starts_with('/') || standard::is_drive(first)
            }) || line_has_drive;
            if !departs {
                prop_assert_eq!(made.as_deref(), Some(url.as_str()));
            }
        }
    }
}
