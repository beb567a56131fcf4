use super::*;

fn urls() -> impl Iterator<Item = UrlRule> {
    (0..8).map(|bits| UrlRule {
        rules: 1 + bits,
        sort_query: bits & 1 != 0,
        drop_www: bits & 2 != 0,
        not_url: if bits & 4 != 0 {
            NotUrl::Drop
        } else {
            NotUrl::Pass
        },
    })
}

fn json(paths: &[&str], no_key: NoKey) -> Part {
    let pointers: Vec<_> = paths
        .iter()
        .map(|path| Pointer::parse(path).expect("a path"))
        .collect();
    Part::Json(JsonRule::new(&pointers, no_key).expect("they go together"))
}

fn all() -> Vec<Rule> {
    let parts = [
        Part::Whole,
        json(&["url"], NoKey::Pass),
        json(&["meta.url", "id"], NoKey::Drop),
        json(&["/a b/%/é/~0~1/", "url", "/0", "/\n="], NoKey::Fail),
    ];
    let mut all = Vec::new();
    for part in parts {
        for url in [None].into_iter().chain(urls().map(Some)) {
            let part = part.clone();
            all.push(Rule { part, url });
        }
    }
    all
}

#[test]
fn rules_go_there_and_back() {
    for rule in all() {
        let label = rule.label();
        assert!(label.is_ascii() && label.len() < 4096, "{rule}");
        assert_eq!(Kept::of_label(&label), Kept::Rule(rule));
    }
}

/// The labels that stores have: they never change.
#[test]
fn labels_are_these() {
    let url = urls().last();
    let labels = [
        (Part::Whole, None, "everseen lines: bytes"),
        (
            Part::Whole,
            url,
            "everseen lines: url rules=8 sort-query drop-www not-url=drop",
        ),
        (
            json(&["meta.url", "/a b"], NoKey::Drop),
            None,
            "everseen lines: json rules=1 key=/meta/url key=/a%20b no-key=drop",
        ),
        (
            json(&["url"], NoKey::Pass),
            url,
            "everseen lines: json rules=1 key=/url no-key=pass url rules=8 sort-query drop-www not-url=drop",
        ),
    ];
    for (part, url, label) in labels {
        let rule = Rule { part, url };
        assert_eq!(str::from_utf8(&rule.label()), Ok(label));
    }
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
        b"json",
        b"json rules=1",
        b"json rules=1 no-key=pass",
        b"json rules=1 key=/url",
        b"json rules=2 key=/url no-key=pass",
        b"json rules=1 key=url no-key=pass",
        b"json rules=1 key= no-key=pass",
        b"json rules=1 key=/u%72l no-key=pass",
        b"json rules=1 key=/a%2 no-key=pass",
        b"json rules=1 key=/%FF no-key=pass",
        b"json rules=1 key=/a key=/a no-key=pass",
        b"json rules=1 no-key=pass key=/a",
        b"json rules=1 key=/a no-key=pass no-key=pass",
        b"json rules=1 key=/a no-key=other",
        b"json rules=1 key=/a no-key=pass url",
        b"json rules=1 key=/a no-key=pass more",
    ] {
        let label = [b"everseen lines: ", rest].concat();
        let kept = Kept::of_label(&label);
        assert_eq!(kept, Kept::Unknown, "{}", label.escape_ascii());
    }
}

#[test]
fn more_pointers_than_a_label_holds_are_refused() {
    let long = |number: usize| format!("/{number}{}", "é".repeat(150));
    let pointers: Vec<_> = (0..5)
        .map(|number| Pointer::parse(&long(number)).expect("short enough"))
        .collect();
    let rule = JsonRule::new(&pointers[..3], NoKey::Pass).expect("they fit");
    let part = Part::Json(rule);
    assert!(Rule { part, url: None }.label().len() < 4096);
    let refused = JsonRule::new(&pointers, NoKey::Pass);
    assert_eq!(refused, Err(PointerError::TooMany));
}
