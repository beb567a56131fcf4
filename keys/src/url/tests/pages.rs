//! What counts for nothing beyond the standard.

use fastrand::Rng;

use crate::url::Normalizer;
use crate::url::pages::{PageRules, query_name};

fn names(list: &str) -> Vec<String> {
    let names = list.split(',').filter(|name| !name.is_empty());
    names
        .map(|name| query_name(name).expect("a name"))
        .collect()
}

/// Rules as the command's options name them.
fn rules(options: &str) -> PageRules {
    let mut rules = PageRules::default();
    for option in options.split(' ').filter(|option| !option.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("drop", list) => rules.drop_query = names(list),
            ("keep", list) => rules.keep_query = names(list),
            ("session", _) => rules.drop_session_path = true,
            ("scheme", _) => rules.ignore_scheme = true,
            ("slash", _) => rules.drop_trailing_slash = true,
            ("lower", _) => rules.lower_path = true,
            (other, _) => panic!("{other}"),
        }
    }
    rules
}

fn normalized(rules: &PageRules, url: &str) -> String {
    let mut normalizer = Normalizer::new().pages(rules.clone());
    let url = normalizer.normalize(url.as_bytes()).expect("a URL");
    String::from_utf8(url.to_vec()).expect("ASCII")
}

/// Rules, and two URLs that are one page by them.
const SAME: &[(&str, &str, &str)] = &[
    ("drop=utm_*", "http://h/?utm_source=x&a=1", "http://h/?a=1"),
    ("drop=utm_*", "http://h/?a=1&utm_x", "http://h/?a=1"),
    ("drop=utm_*", "http://h/?utm_=1", "http://h/"),
    ("drop=utm_*", "http://h/?utm_a&utm_b=2&utm_c#x", "http://h"),
    (
        "drop=gclid,fbclid",
        "http://h/p?gclid=1&b&fbclid=2",
        "http://h/p?b",
    ),
    (
        "drop=PHPSESSID",
        "https://h/?PHPSESSID=0a&x=%20",
        "https://h/?x=%20",
    ),
    ("drop=*id", "http://h/?sid&id=1&idx", "http://h/?idx"),
    ("drop=a*c*e", "http://h/?ace&abcde=1&abce&b", "http://h/?b"),
    ("drop=*", "http://h/?a&b=c", "http://h/"),
    (
        "drop=@tracking",
        "http://h/?utm_source=a&gclid=b&_ga=c&q=1",
        "http://h/?q=1",
    ),
    (
        "drop=@tracking,sid",
        "http://h/?sid=1&fbclid=2",
        "http://h/",
    ),
    ("drop=a", "ftp://h/?a=1&b", "ftp://h/?b"),
    ("drop=a", "mailto:x?a=1", "mailto:x"),
    ("keep=id", "http://h/?x=1&id=7&y", "http://h/?id=7"),
    (
        "keep=id,p*",
        "http://h/?page=2&q&id=7",
        "http://h/?page=2&id=7",
    ),
    ("keep=id", "http://h/?x", "http://h/"),
    ("session", "http://h/a;jsessionid=0A.b", "http://h/a"),
    (
        "session",
        "http://h/a;JSESSIONID=1/b;jsessionid=2?q",
        "http://h/a/b?q",
    ),
    ("session", "http://h/a;jsessionid=1;v=2", "http://h/a;v=2"),
    ("session", "http://h/;jsessionid=1", "http://h/"),
    ("session", "http://h/a;jsessionid=?q=1", "http://h/a?q=1"),
    ("scheme", "http://h/", "https://h/"),
    ("scheme", "HTTP://H:80/a", "https://h:443/a"),
    ("scheme", "http://h:443/", "https://h/"),
    ("scheme", "http://h:8080/", "https://h:8080/"),
    ("scheme", "http://u:443@[::1]:443/", "https://u:443@[::1]/"),
    ("slash", "http://h/a/", "http://h/a"),
    ("slash", "http://h/a///?q", "http://h/a?q"),
    ("slash", "http://h//", "http://h"),
    ("slash", "http://h/a/b/..", "http://h/a"),
    ("lower", "http://h/A/b%C3", "http://h/a/B%c3"),
    ("session slash", "http://h/a/;jsessionid=1", "http://h/a"),
    (
        "drop=@tracking session scheme slash lower",
        "http://H:80/A/;jsessionid=x/?utm_a=1&Q=2#f",
        "https://h/a/?Q=2",
    ),
];

/// Rules, and two URLs that are two pages by them.
const OTHER: &[(&str, &str, &str)] = &[
    ("", "http://h/?utm_source=x", "http://h/"),
    ("", "http://h/a/", "http://h/a"),
    ("", "http://h/", "https://h/"),
    ("", "http://h/A", "http://h/a"),
    ("", "http://h/a;jsessionid=1", "http://h/a"),
    ("drop=utm_*", "http://h/?utm=1", "http://h/"),
    ("drop=utm_*", "http://h/?UTM_A=1", "http://h/"),
    ("drop=utm_*", "http://h/?a=utm_b", "http://h/?a"),
    ("drop=utm_*", "http://h/?", "http://h/"),
    ("drop=utm_*", "http://h/utm_a", "http://h/"),
    ("drop=a*c*e", "http://h/?aec", "http://h/"),
    ("drop=*id", "http://h/?idx", "http://h/"),
    ("drop=ab*ba", "http://h/?aba", "http://h/"),
    ("drop=@tracking", "http://h/?id=1", "http://h/"),
    ("keep=id", "http://h/?id=1", "http://h/?id=2"),
    ("keep=id", "http://h/?ID=1", "http://h/?id=1"),
    ("session", "http://h/a;sid=1", "http://h/a"),
    ("session", "http://h/a?x=;jsessionid=1", "http://h/a?x="),
    ("session", "http://h/a/..;jsessionid=1/b", "http://h/a/b"),
    ("session", "http://h/jsessionid=1", "http://h/"),
    ("scheme", "http://h:8080/", "https://h/"),
    ("scheme", "ws://h/", "wss://h/"),
    ("scheme", "http://h:80/", "https://h:80/"),
    ("slash", "http://h/a/?q", "http://h/?q"),
    ("slash", "ftp://h/a/", "ftp://h/a"),
    ("slash", "http://h/?a/", "http://h/?a"),
    ("lower", "http://h/?A", "http://h/?a"),
    ("lower", "ftp://h/A", "ftp://h/a"),
];

#[test]
fn spellings_are_one_page_or_two() {
    for (options, a, b) in SAME {
        let rules = rules(options);
        assert_eq!(normalized(&rules, a), normalized(&rules, b), "{options}");
        // Each rule is needed.
        assert_ne!(
            normalized(&PageRules::default(), a),
            normalized(&PageRules::default(), b)
        );
    }
    for (options, a, b) in OTHER {
        let rules = rules(options);
        assert_ne!(normalized(&rules, a), normalized(&rules, b), "{options}");
    }
}

#[test]
fn once_is_enough_whatever_the_rules() {
    const PIECES: [&str; 26] = [
        "http://",
        "https://",
        "ftp://",
        "h",
        "H:80",
        "h:443",
        "/",
        "//",
        "a",
        "B",
        ";jsessionid=",
        ";JSessionId=1",
        "..",
        "%2e",
        ".",
        "?",
        "&",
        "utm_a",
        "=",
        "id",
        "#",
        ";",
        "x",
        "%c3",
        ":",
        "@",
    ];
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let (mut urls, mut changed) = (0, 0);
    for round in 0..60_000 {
        let mut url = PIECES[random.usize(..3)].to_owned() + "h/";
        for _ in 0..random.usize(..10) {
            url += PIECES[random.usize(3..PIECES.len())];
        }
        let mut options = vec![["", "drop=utm_*,x", "keep=id,a"][random.usize(..3)]];
        options.extend(
            ["session", "scheme", "slash", "lower"]
                .into_iter()
                .filter(|_| random.bool()),
        );
        let rules = rules(&options.join(" "));
        let mut normalizer = Normalizer::new().pages(rules).drop_www(random.bool());
        let Ok(once) = normalizer.normalize(url.as_bytes()).map(<[u8]>::to_vec) else {
            continue;
        };
        let again = normalizer.normalize(&once).map(<[u8]>::to_vec);
        assert_eq!(
            again.as_ref(),
            Ok(&once),
            "round {round}: {url} {options:?}"
        );
        urls += 1;
        changed += usize::from(Normalizer::new().normalize(url.as_bytes()) != Ok(&once));
    }
    assert!(urls > 20_000 && changed > 10_000, "{urls} {changed}");
}

#[test]
fn names_are_those_of_queries() {
    for name in ["utm_*", "@tracking", "a[]", "%20", "*"] {
        assert_eq!(query_name(name).as_deref(), Ok(name));
    }
    for wrong in [
        "",
        "a b",
        "a&b",
        "a=b",
        "@other",
        "é",
        "a,b",
        &"x".repeat(101),
    ] {
        assert!(query_name(wrong).is_err(), "{wrong}");
    }
}
