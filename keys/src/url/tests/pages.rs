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
    (
        "drop=utm_*",
        "http://h/?utm_source=a&utm_medium=b&utm_campaign=c&id=1",
        "http://h/?id=1",
    ),
    (
        "drop=utm_*",
        "http://h/?id=1&utm_source=a&p=2",
        "http://h/?id=1&p=2",
    ),
    (
        "drop=utm_*",
        "https://h/a/b?utm_content=%C3%A9",
        "https://h/a/b",
    ),
    ("drop=utm_*", "http://h/?utm_source", "http://h/"),
    ("drop=utm_*", "http://h/?utm_a=1&utm_a=2", "http://h/"),
    ("drop=utm_*", "http://h/?utm_a=b=c&x", "http://h/?x"),
    ("drop=utm_*,", "http://h:80/?utm_a=1", "http://h/"),
    ("drop=a", "http://h/?a", "http://h/"),
    ("drop=a", "http://h/?a=", "http://h/"),
    ("drop=a", "http://h/?b=1&a=2&c=3", "http://h/?b=1&c=3"),
    ("drop=a", "http://h/?a=1&a=2&b", "http://h/?b"),
    ("drop=a", "http://h/?b&a", "http://h/?b"),
    ("drop=a", "http://h/p?a=1#top", "http://h/p#end"),
    ("drop=a,b", "http://h/?b=1&a=2&c", "http://h/?c"),
    ("drop=a[]", "http://h/?a[]=1&b=2", "http://h/?b=2"),
    ("drop=a*b", "http://h/?ab=1&axxb=2&c", "http://h/?c"),
    ("drop=*a*", "http://h/?bab&a&ca&d", "http://h/?d"),
    ("drop=**a", "http://h/?xa=1&b", "http://h/?b"),
    (
        "drop=PHPSESSID,sid",
        "http://h/i.php?sid=1&q=x&PHPSESSID=2",
        "http://h/i.php?q=x",
    ),
    ("drop=a", "https://h:8443/?a=1", "https://h:8443/"),
    ("drop=a", "http://u:p@h/?a=1", "http://u:p@h/"),
    ("drop=a", "http://[::1]/?a=1&b", "http://[::1]/?b"),
    ("drop=@tracking", "http://h/?gclid=1", "http://h/"),
    ("drop=@tracking", "http://h/?fbclid=1&x=y", "http://h/?x=y"),
    ("drop=@tracking", "http://h/?msclkid=1", "http://h/"),
    ("drop=@tracking", "http://h/?_ga=2.1&_gl=1", "http://h/"),
    ("drop=@tracking", "http://h/?mc_cid=1&mc_eid=2", "http://h/"),
    ("drop=@tracking", "http://h/?yclid=1&ysclid=2", "http://h/"),
    ("drop=@tracking", "http://h/?igshid=1", "http://h/"),
    (
        "drop=@tracking",
        "http://h/?srsltid=1&q=shoes",
        "http://h/?q=shoes",
    ),
    (
        "drop=@tracking",
        "http://h/?dclid=1&gbraid=2&wbraid=3&gclsrc=4",
        "http://h/",
    ),
    (
        "drop=@tracking",
        "http://h/?_hsenc=1&_hsmi=2&mkt_tok=3",
        "http://h/",
    ),
    (
        "drop=@tracking,ref",
        "http://h/?ref=home&utm_id=1",
        "http://h/",
    ),
    ("keep=id", "http://h/?id=1&utm_a=2", "http://h/?id=1"),
    ("keep=id", "http://h/?a&b&c", "http://h/"),
    ("keep=id", "http://h/?id&x", "http://h/?id"),
    ("keep=id", "http://h/?x=1&id=2&id=3", "http://h/?id=2&id=3"),
    ("keep=a,b", "http://h/?b=1&c=2&a=3", "http://h/?b=1&a=3"),
    (
        "keep=p*",
        "http://h/?page=1&per=2&q=3",
        "http://h/?page=1&per=2",
    ),
    (
        "keep=*id",
        "http://h/?pid=1&id=2&idx=3",
        "http://h/?pid=1&id=2",
    ),
    ("keep=id", "https://h/a?x#y", "https://h/a"),
    (
        "keep=v",
        "https://h/watch?v=dQ&t=42s&list=PL",
        "https://h/watch?v=dQ",
    ),
    ("session", "http://h/a;jsessionid=1#x", "http://h/a"),
    (
        "session",
        "http://h/a/b;jsessionid=AB12.node1",
        "http://h/a/b",
    ),
    ("session", "http://h/a;JSessionId=1", "http://h/a"),
    ("session", "http://h/a;jsessionid=1/b/c", "http://h/a/b/c"),
    (
        "session",
        "http://h/a;jsessionid=1/;jsessionid=2",
        "http://h/a/",
    ),
    (
        "session",
        "https://h/x.do;jsessionid=0?m=1",
        "https://h/x.do?m=1",
    ),
    ("session", "http://h/a;x=1;jsessionid=2", "http://h/a;x=1"),
    (
        "session",
        "http://h/a;x=1;jsessionid=2;y=3",
        "http://h/a;x=1;y=3",
    ),
    (
        "session",
        "http://h/a;jsessionid=1;jsessionid=2",
        "http://h/a",
    ),
    ("session", "http://h/a;jsessionid=%20!", "http://h/a"),
    ("scheme", "http://h/a?b", "https://h/a?b"),
    ("scheme", "http://h:80/", "https://h/"),
    ("scheme", "http://h/", "https://h:443/"),
    ("scheme", "HTTP://H/A", "https://h/A"),
    ("scheme", "http://h/#x", "https://h/#y"),
    ("scheme", "http://u:p@h/", "https://u:p@h/"),
    ("scheme", "http://127.0.0.1/", "https://127.0.0.1/"),
    ("scheme", "http://0x7f.1/", "https://127.0.0.1/"),
    ("scheme", "http://[::1]/", "https://[::1]/"),
    ("scheme", "http:/h/a", "https://h/a"),
    ("slash", "http://h/a/b/", "http://h/a/b"),
    ("slash", "http://h/a/#x", "http://h/a"),
    ("slash", "http://h/a/?b=c", "http://h/a?b=c"),
    ("slash", "https://h/a//", "https://h/a"),
    ("slash", "http://h///", "http://h/"),
    ("slash", "http://h/a/.", "http://h/a"),
    ("slash", "http://h/a/./", "http://h/a"),
    ("slash", "http://h/a/b/../", "http://h/a"),
    ("slash", "http://h/%20/", "http://h/%20"),
    ("slash", "http://h:81/a/", "http://h:81/a"),
    ("lower", "http://h/ABC", "http://h/abc"),
    (
        "lower",
        "http://h/Index.HTML?A=1",
        "http://h/index.html?A=1",
    ),
    ("lower", "https://h/A/../B", "https://h/b"),
    ("lower", "http://h/%C3%84", "http://h/%c3%84"),
    ("lower", "http://h/A#B", "http://h/a#b"),
    ("lower", "http://H/A", "http://h/a"),
    ("drop=a slash", "http://h/p/?a=1", "http://h/p"),
    ("drop=a scheme", "http://h/?a", "https://h/"),
    ("keep=id slash", "http://h/p/?id=1&x", "http://h/p?id=1"),
    ("keep=id lower", "http://h/P?id=A&x", "http://h/p?id=A"),
    ("session lower", "http://h/A;JSESSIONID=1", "http://h/a"),
    ("session slash", "http://h/a;jsessionid=1/", "http://h/a"),
    ("scheme slash", "http://h/a/", "https://h/a"),
    ("scheme lower", "http://h/A", "https://h/a"),
    ("scheme session", "http://h/a;jsessionid=1", "https://h/a"),
    ("slash lower", "http://h/A/", "http://h/a"),
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
    ("", "http://h/?gclid=1", "http://h/"),
    ("", "http://h/a//", "http://h/a/"),
    ("", "http://h/;jsessionid=1", "http://h/"),
    ("", "http://h/?a=1&b=2", "http://h/?b=2&a=1"),
    ("drop=utm_*", "http://h/?xutm_a=1", "http://h/"),
    ("drop=utm_*", "http://h/?id=1&utm_a=1", "http://h/?id=2"),
    ("drop=utm_*", "http://h/?b=1&a=2&utm_x", "http://h/?a=2&b=1"),
    ("drop=utm_*", "http://h/?%75tm_a=1", "http://h/"),
    ("drop=utm", "http://h/?utm_a=1", "http://h/"),
    ("drop=a", "http://h/?A=1", "http://h/"),
    ("drop=a", "http://h/?ab=1", "http://h/"),
    ("drop=a", "http://h/?ba=1", "http://h/"),
    ("drop=a", "http://h/?b=a", "http://h/?b"),
    ("drop=a", "http://h/a", "http://h/"),
    ("drop=a", "http://h/;a=1", "http://h/"),
    ("drop=a", "http://h/?a;b", "http://h/"),
    ("drop=a", "http://h/?a&b", "http://h/?a&c"),
    ("drop=@tracking", "http://h/?ref=1", "http://h/"),
    ("drop=@tracking", "http://h/?sid=1", "http://h/"),
    ("drop=@tracking", "http://h/?GCLID=1", "http://h/"),
    ("drop=@tracking", "http://h/?q=utm_source", "http://h/"),
    ("keep=id", "http://h/?id=1", "http://h/"),
    ("keep=id", "http://h/a?id=1", "http://h/b?id=1"),
    ("keep=id", "http://h/?id=1&id=2", "http://h/?id=2&id=1"),
    ("keep=id", "http://h/?xid=1", "http://h/?id=1"),
    ("keep=id*", "http://h/?id1=a", "http://h/?id2=a"),
    ("session", "http://h/a;jsessionid", "http://h/a"),
    ("session", "http://h/a;xjsessionid=1", "http://h/a"),
    ("session", "http://h/a?jsessionid=1", "http://h/a"),
    ("session", "http://h/a;phpsessid=1", "http://h/a"),
    (
        "session",
        "http://h/a;jsessionid=1",
        "http://h/b;jsessionid=1",
    ),
    ("session", "http://h/a%3Bjsessionid=1", "http://h/a"),
    ("session", "ftp://h/a;jsessionid=1", "ftp://h/a"),
    ("scheme", "ftp://h/", "http://h/"),
    ("scheme", "http://h/", "https://h.org/"),
    ("scheme", "http://h:443/", "https://h:80/"),
    ("scheme", "http://u@h/", "https://h/"),
    ("scheme", "http://h/a", "https://h/b"),
    ("slash", "http://h/a", "http://h/b/"),
    ("slash", "http://h/a//b", "http://h/a/b"),
    ("slash", "http://h/a/%2F", "http://h/a"),
    ("slash", "http://h/a?b/", "http://h/a?b"),
    ("lower", "http://h/a?B=C", "http://h/a?b=c"),
    ("lower", "http://U@h/", "http://u@h/"),
    ("lower", "http://h/%C3%84", "http://h/%C3%A4"),
    ("session", "http://h/;jsessionid=1", "https://h/"),
    ("drop=a session", "http://h/?b;jsessionid=1", "http://h/?b"),
    ("lower scheme", "http://h/A?B", "https://h/a?b"),
    ("scheme slash", "http://h/a/", "https://h/"),
    ("drop=*id", "http://h/?ids=1", "http://h/"),
    ("keep=id slash", "http://h/a/?id=1", "http://h/a?id=2"),
];

#[test]
fn spellings_are_one_page_or_two() {
    assert!(SAME.len() + OTHER.len() >= 200);
    for (options, a, b) in SAME {
        let rules = rules(options);
        assert_eq!(
            normalized(&rules, a),
            normalized(&rules, b),
            "{options}: {a}"
        );
        // Each rule is needed.
        assert_ne!(
            normalized(&PageRules::default(), a),
            normalized(&PageRules::default(), b),
            "{options}: {a}"
        );
    }
    for (options, a, b) in OTHER {
        let rules = rules(options);
        assert_ne!(
            normalized(&rules, a),
            normalized(&rules, b),
            "{options}: {a}"
        );
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
