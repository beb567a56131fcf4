mod departures;
mod pages;

use super::*;
use ::url::Position;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn normalized(mut normalizer: Normalizer, line: &[u8]) -> Result<String, UrlError> {
    let bytes = normalizer.normalize(line)?;
    Ok(String::from_utf8(bytes.to_vec()).expect("a normalised URL is text"))
}

fn plain(line: &str) -> Result<String, UrlError> {
    normalized(Normalizer::new(), line.as_bytes())
}

/// What the standard says of each, not what the parser does: https://url.spec.whatwg.org/.
#[test]
fn facts_of_the_standard() {
    for (line, url) in [
        // Scheme and host have no case, path and query do.
        (
            "HTTP://EXAMPLE.Org/INDEX.html?A=B",
            "http://example.org/INDEX.html?A=B",
        ),
        (
            "http://example.org/index.html",
            "http://example.org/index.html",
        ),
        // A special scheme has a path.
        ("http://example.org", "http://example.org/"),
        ("http://example.org?q", "http://example.org/?q"),
        ("https:example.org/a", "https://example.org/a"),
        ("https:////example.org/a", "https://example.org/a"),
        ("http:\\\\example.org\\a", "http://example.org/a"),
        // Fragments go, in every form; queries stay, empty ones too.
        ("http://example.org/a#b", "http://example.org/a"),
        ("http://example.org/a#", "http://example.org/a"),
        ("http://example.org/a?b#c?d", "http://example.org/a?b"),
        ("http://example.org/a?", "http://example.org/a?"),
        // Default ports go, others stay, as numbers.
        ("http://example.org:80/", "http://example.org/"),
        ("https://example.org:443/", "https://example.org/"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("http://example.org:0080/", "http://example.org/"),
        ("http://example.org:/", "http://example.org/"),
        ("ftp://example.org:21/a", "ftp://example.org/a"),
        ("ws://example.org:80/", "ws://example.org/"),
        // Segments of dots, percent-encoded as well.
        ("http://example.org/a/./b/../c", "http://example.org/a/c"),
        ("http://example.org/a/%2e/%2E%2e/c", "http://example.org/c"),
        ("http://example.org/../../a", "http://example.org/a"),
        ("http://example.org/a/..", "http://example.org/"),
        ("http://example.org/a//b", "http://example.org/a//b"),
        // What must be percent-encoded is, what is stays as it is written.
        (
            "http://example.org/a b?c d",
            "http://example.org/a%20b?c%20d",
        ),
        ("http://example.org/é", "http://example.org/%C3%A9"),
        ("http://example.org/%c3%a9", "http://example.org/%c3%a9"),
        ("http://example.org/%7Ea~%2f", "http://example.org/%7Ea~%2f"),
        ("http://example.org/100%", "http://example.org/100%"),
        // Hosts: percent-decoded, international, addresses, a last dot.
        ("http://ex%61mple.org/", "http://example.org/"),
        ("http://Bücher.example/", "http://xn--bcher-kva.example/"),
        (
            "http://xn--bcher-kva.example/",
            "http://xn--bcher-kva.example/",
        ),
        ("http://faß.example/", "http://xn--fa-hia.example/"),
        ("http://example.org./", "http://example.org./"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://[2001:DB8:0:0:0:0:0:1]/", "http://[2001:db8::1]/"),
        ("http://[::ffff:1.2.3.4]/", "http://[::ffff:102:304]/"),
        // User and password stay.
        (
            "http://User:Pass@example.org/",
            "http://User:Pass@example.org/",
        ),
        ("http://@example.org/", "http://example.org/"),
        // Space around, line ends and tabs within.
        (" \thttp://example.org/a \r", "http://example.org/a"),
        ("ht\ttp://exa\r\nmple.org/\ta", "http://example.org/a"),
        ("\u{1}http://example.org/\u{0}", "http://example.org/"),
        // A byte-order mark, as a decoder takes it off.
        ("\u{feff}http://example.org/", "http://example.org/"),
        // Other schemes.
        ("mailto:A@Example.ORG", "mailto:A@Example.ORG"),
        ("MailTo:a@example.org#b", "mailto:a@example.org"),
        ("data:text/plain,A B #c", "data:text/plain,A B"),
        ("file:///c:/../a", "file:///c:/a"),
        ("file://localhost/a", "file:///a"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("localhost:8080/a", "localhost:8080/a"),
        ("git://Example.ORG/a/../b", "git://Example.ORG/b"),
        ("web+x:/.//a", "web+x:/.//a"),
    ] {
        assert_eq!(plain(line), Ok(url.to_owned()), "{line:?}");
        assert_eq!(plain(url), Ok(url.to_owned()), "again: {url:?}");
    }
}

#[test]
fn what_is_no_url_is_told_by_its_reason() {
    for (line, error) in [
        (&b""[..], UrlError::Blank),
        (b" \t\r\0", UrlError::Blank),
        ("\u{feff}".as_bytes(), UrlError::Blank),
        ("\u{feff}\u{feff}http://a/".as_bytes(), UrlError::Relative),
        (b"\xff", UrlError::Relative),
        (b"ht\xe9tp://a/", UrlError::Relative),
        (b"http://b\xfccher.example/", UrlError::InvalidDomain),
        (b"example.org/a", UrlError::Relative),
        (b"/a", UrlError::Relative),
        (b"//example.org/a", UrlError::Relative),
        (b"?a", UrlError::Relative),
        (b"#a", UrlError::Relative),
        (b"127.0.0.1:80/a", UrlError::Relative),
        (b"http://", UrlError::EmptyHost),
        (b"https:", UrlError::EmptyHost),
        (b"http://a@/", UrlError::EmptyHost),
        (b"http://a b/", UrlError::InvalidDomain),
        (b"http://a%00b/", UrlError::InvalidDomain),
        (b"http://a|b/", UrlError::InvalidDomain),
        (b"http://xn--/", UrlError::InvalidDomain),
        (b"http://1.2.3.256/", UrlError::InvalidIpv4),
        (b"http://a.1/", UrlError::InvalidIpv4),
        (b"http://[::1/", UrlError::InvalidIpv6),
        (b"http://[1:2]/", UrlError::InvalidIpv6),
        (b"http://a:65536/", UrlError::InvalidPort),
        (b"http://a:b/", UrlError::InvalidPort),
        (b"file://C%7C/", UrlError::InvalidDomain),
        (b"file://a b/", UrlError::InvalidDomain),
        (b"http:///\\/", UrlError::EmptyHost),
    ] {
        let got = normalized(Normalizer::new(), line);
        assert_eq!(got, Err(error), "{}", line.escape_ascii());
    }
    assert_eq!(
        UrlError::from(::url::ParseError::Overflow),
        UrlError::Refused
    );
}

#[test]
fn a_line_may_be_as_long_as_told_and_no_longer() {
    let mut line = b"http://a/".to_vec();
    line.resize(LONGEST, b'x');
    assert_eq!(Normalizer::new().normalize(&line), Ok(&line[..]));
    line.push(b'x');
    let got = LONGEST + 1;
    let refused = Normalizer::new().normalize(&line).map(<[u8]>::len);
    assert_eq!(refused, Err(UrlError::TooLong { got }));
}

#[test]
fn queries_are_sorted_by_name_when_told() {
    for (query, sorted) in [
        ("b=2&a=1", "a=1&b=2"),
        ("a=2&a=1", "a=2&a=1"),
        ("b&a=2&b=1&a=1", "a=2&a=1&b&b=1"),
        ("a=b=c&a", "a=b=c&a"),
        ("b&", "&b"),
        ("&&b&&a", "&&&a&b"),
        ("a-b=1&a=2", "a=2&a-b=1"),
        ("%62=1&a=2", "%62=1&a=2"),
        ("B=1&a=2&A=3", "A=3&B=1&a=2"),
        ("c?b&a/b", "a/b&c?b"),
        ("", ""),
        ("&", "&"),
    ] {
        let line = format!("http://example.org/?{query}");
        let expected = format!("http://example.org/?{sorted}");
        let got = normalized(Normalizer::new().sort_query(true), line.as_bytes());
        assert_eq!(got, Ok(expected), "{query}");
        assert_eq!(plain(&line), Ok(line));
    }
}

#[test]
fn www_goes_when_told_and_only_where_a_domain_is_left() {
    for (line, url) in [
        ("http://www.example.org/", "http://example.org/"),
        (
            "https://WWW.example.org:8080/www.",
            "https://example.org:8080/www.",
        ),
        (
            "http://www.:p@www.example.org/",
            "http://www.:p@example.org/",
        ),
        ("http://www.www.example.org/", "http://example.org/"),
        ("http://www.example.org./", "http://example.org./"),
        ("http://www.org/", "http://www.org/"),
        ("http://www.org./", "http://www.org./"),
        ("http://www.www.org/", "http://www.org/"),
        ("http://www/", "http://www/"),
        ("http://www./", "http://www./"),
        ("http://www..org/", "http://www..org/"),
        ("http://wwww.example.org/", "http://wwww.example.org/"),
        ("http://a.www.example.org/", "http://a.www.example.org/"),
        ("ftp://www.example.org/", "ftp://www.example.org/"),
        ("foo://www.example.org/", "foo://www.example.org/"),
        ("mailto:www.a.b", "mailto:www.a.b"),
    ] {
        let got = normalized(Normalizer::new().drop_www(true), line.as_bytes());
        assert_eq!(got, Ok(url.to_owned()), "{line}");
    }
    let both = Normalizer::new().drop_www(true).sort_query(true);
    let line = b"http://www.a.org/?b&a";
    assert_eq!(normalized(both, line), Ok("http://a.org/?a&b".to_owned()));
    assert_eq!(
        plain("http://www.a.org/"),
        Ok("http://www.a.org/".to_owned())
    );
}

/// What one line leaves behind does not show in the next.
#[test]
fn one_normalizer_serves_many_lines() {
    let mut normalizer = Normalizer::new().sort_query(true).drop_www(true);
    for _ in 0..2 {
        assert_eq!(
            normalizer.normalize(b"http://www.a.b/?c&b&a"),
            Ok(&b"http://a.b/?a&b&c"[..])
        );
        assert_eq!(normalizer.normalize(b"x"), Err(UrlError::Relative));
        assert_eq!(
            normalizer.normalize(b"http://b/?a"),
            Ok(&b"http://b/?a"[..])
        );
    }
}

/// The slow twin of the two options: by way of the parser's own setters and a stable sort.
fn twin(line: &str, sort_query: bool, drop_www: bool) -> Option<String> {
    let mut url = Url::parse(line.strip_prefix('\u{feff}').unwrap_or(line)).ok()?;
    url.set_fragment(None);
    if url.scheme() == "file" && Url::parse(url.as_str()).ok()?.as_str() != url.as_str() {
        return None;
    }
    if let Some(query) = url.query().filter(|_| sort_query) {
        let mut parts: Vec<String> = query.split('&').map(str::to_owned).collect();
        parts.sort_by_key(|part| part.split('=').next().unwrap_or_default().to_owned());
        let mut text = url[..Position::BeforeQuery].to_owned();
        text += &parts.join("&");
        url = Url::parse(&text).ok()?;
    }
    if drop_www && ["http", "https"].contains(&url.scheme()) {
        loop {
            let host = url.host_str()?.to_owned();
            let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
            if labels.len() < 3 || labels[0] != "www" || labels[1].is_empty() {
                break;
            }
            url.set_host(Some(&host[4..])).ok()?;
        }
    }
    Some(url.into())
}

/// Pieces that mean something to the parser.
const PIECES: &[&str] = &[
    "http",
    "https",
    "file",
    "foo",
    "data",
    "mailto",
    "blob",
    "ftp",
    "ws",
    "://",
    ":",
    "/",
    "//",
    "\\",
    "?",
    "#",
    "&",
    "=",
    "@",
    "[",
    "]",
    "::1",
    ":80",
    ":443",
    ".",
    "..",
    "%2e",
    "%2F",
    "%",
    "www.",
    "www",
    "example.org",
    "a",
    "B",
    "C|",
    "c:",
    "localhost",
    "127.0.0.1",
    "0x7f",
    "1",
    " ",
    "\t",
    "\r",
    "\n",
    "\0",
    "é",
    "ß",
    "א",
    "xn--bcher-kva",
    "xn--",
    "\u{200d}",
    "\u{feff}",
    "\u{ad}",
    "。",
    "😀",
    "+",
    "-",
    "^",
    "|",
    "'",
    "\"",
    "<",
    "a=1",
    "b=2",
];

/// Pieces in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(PIECES);
    let tail = prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat());
    let head = prop::sample::select(vec![
        "",
        "",
        "http://",
        "https://www.",
        "HTTP:",
        "file:///",
        "file:",
        "foo://",
        "foo:",
        "foo:/",
        "data:",
        "foo:/.//",
        "http://example.org/?",
        "http://www.example.org",
    ]);
    (head, tail).prop_map(|(head, tail)| head.to_owned() + &tail)
}

fn lines() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => pieces().prop_map(String::into_bytes),
        1 => ".*".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..80),
        1 => (pieces(), prop::collection::vec(any::<u8>(), 0..4), pieces())
            .prop_map(|(a, b, c)| [a.as_bytes(), &b, c.as_bytes()].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Nothing panics, and what comes out is ASCII, without a fragment, and comes out of itself.
    #[test]
    fn any_bytes_are_a_url_or_not_and_once_is_enough(
        line in lines(),
        sort_query in any::<bool>(),
        drop_www in any::<bool>(),
    ) {
        let normalizer = Normalizer::new().sort_query(sort_query).drop_www(drop_www);
        if let Ok(once) = normalized(normalizer.clone(), &line) {
            prop_assert!(once.is_ascii() && !once.contains('#'), "{:?}", once);
            let twice = normalized(normalizer, once.as_bytes());
            prop_assert_eq!(twice, Ok(once));
        }
    }

    #[test]
    fn the_options_do_what_their_twin_does(
        line in pieces(),
        sort_query in any::<bool>(),
        drop_www in any::<bool>(),
    ) {
        let normalizer = Normalizer::new().sort_query(sort_query).drop_www(drop_www);
        // The twin has the parser's paths.
        let normalizer = normalizer.rules(1).expect("a version that there is");
        let got = normalized(normalizer, line.as_bytes()).ok();
        prop_assert_eq!(got, twin(&line, sort_query, drop_www));
    }
}

/// Stores keep the version. Raise it if this fails after an intended change; what earlier versions do never changes.
#[test]
fn a_version_of_the_rules_has_one_result_for_each_line() {
    assert_eq!(RULES, 2);
    assert_eq!([1, 2].map(crc_of), [1_606_794_382, 4_110_106_892]);
    for unknown in [0, RULES + 1, u32::MAX] {
        assert!(Normalizer::new().rules(unknown).is_none());
    }
}

fn crc_of(rules: u32) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    let options = [false, true].map(|yes| {
        let normalizer = Normalizer::new().sort_query(yes).drop_www(yes);
        normalizer.rules(rules).expect("a version that there is")
    });
    for start in ["http://", "https://www.example.org/?", "file://", "foo:"] {
        for [first, second] in PIECES
            .iter()
            .flat_map(|a| PIECES.iter().map(move |b| [*a, *b]))
        {
            let line = [start, first, second].concat();
            for normalizer in options.clone() {
                let url = normalized(normalizer, line.as_bytes());
                crc.update(url.as_deref().unwrap_or("-").as_bytes());
                crc.update(b"\n");
            }
        }
    }
    crc.finalize()
}

/// The generator reaches what it is for.
#[test]
fn the_pieces_make_urls_and_all_kinds_of_none() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let (mut runner, mut urls, mut reasons) = (TestRunner::deterministic(), 0, BTreeSet::new());
    for _ in 0..20_000 {
        let line = lines().new_tree(&mut runner).expect("a line").current();
        match normalized(Normalizer::new(), &line) {
            Ok(_) => urls += 1,
            Err(error) => {
                reasons.insert(format!("{error:?}"));
            }
        }
    }
    assert!((5_000..15_000).contains(&urls), "{urls} URLs");
    assert_eq!(reasons.len(), 7, "{reasons:?}");
}
