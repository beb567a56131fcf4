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

fn json(paths: &[&str]) -> Part {
    let pointers: Vec<_> = paths
        .iter()
        .map(|path| Pointer::parse(path).expect("a path"))
        .collect();
    Part::Json(JsonRule::new(&pointers).expect("they go together"))
}

fn csv(columns: &[&str], delimiter: u8, has_header: bool) -> Part {
    let columns: Vec<_> = columns
        .iter()
        .map(|column| Column::parse(column).expect("a column"))
        .collect();
    let rule = CsvRule::new(&columns, delimiter).expect("they go together");
    Part::Csv(CsvRule { has_header, ..rule })
}

fn fields(numbers: &[usize], separator: &[u8]) -> Part {
    let separator = match separator {
        b"" => Separator::Blank,
        bytes => Separator::Bytes(bytes.to_vec()),
    };
    Part::Fields(FieldsRule::new(numbers, separator).expect("they go together"))
}

fn pages_of(bits: u32, url: Option<UrlRule>) -> PageRules {
    let pages = PageRules {
        drop_query: ["utm_*", "@tracking", "a%b"].map(str::to_owned).to_vec(),
        keep_query: vec!["pages".to_owned()],
        drop_session_path: bits & 1 != 0,
        ignore_scheme: bits & 2 != 0,
        drop_trailing_slash: bits & 4 != 0,
        lower_path: true,
    };
    url.filter(|_| bits > 0).map(|_| pages).unwrap_or_default()
}

fn all() -> Vec<Rule> {
    let parts = [
        (Part::Whole, NoKey::Pass),
        (json(&["url"]), NoKey::Pass),
        (json(&["meta.url", "id"]), NoKey::Drop),
        (json(&["/a b/%/é/~0~1/", "url", "/0", "/\n="]), NoKey::Fail),
        (csv(&["url"], b',', true), NoKey::Pass),
        (
            csv(&["no-key=", "a b=%", "é", "3"], b' ', false),
            NoKey::Drop,
        ),
        (csv(&["url", "text", "json"], b'\t', true), NoKey::Fail),
        (fields(&[3], b""), NoKey::Pass),
        (fields(&[9, 1], b"\xff %::"), NoKey::Drop),
    ];
    let mut all = Vec::new();
    for (part, no_key) in parts {
        for bits in 0..8 {
            for url in [None].into_iter().chain(urls().map(Some)) {
                all.push(Rule {
                    part: part.clone(),
                    no_key,
                    text: TextRule {
                        crlf: bits & 1 != 0,
                        trim: bits & 2 != 0,
                        ignore_case: bits & 4 != 0,
                    },
                    url,
                    pages: pages_of(bits, url),
                });
            }
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

#[track_caller]
fn assert_label(rule: Rule, words: &str) {
    let label = format!("everseen lines: {words}");
    assert_eq!(String::from_utf8(rule.label()), Ok(label));
}

/// The labels that stores have: they never change.
#[test]
fn labels_are_these() {
    let exact = TextRule::default();
    let rule = |part, no_key| Rule {
        part,
        no_key,
        ..Rule::default()
    };
    assert_label(Rule::default(), "bytes");
    for (part, no_key, words) in [
        (
            json(&["meta.url", "/a b"]),
            NoKey::Drop,
            "json rules=1 key=/meta/url key=/a%20b no-key=drop",
        ),
        (
            csv(&["a url", "2"], b'\t', true),
            NoKey::Fail,
            "csv rules=1 delimiter=%09 header=yes name=a%20url column=2 no-key=fail",
        ),
        (
            csv(&["1"], b',', false),
            NoKey::Pass,
            "csv rules=1 delimiter=, header=no column=1 no-key=pass",
        ),
        (
            fields(&[2, 1], b""),
            NoKey::Pass,
            "fields rules=1 separator=blank field=2 field=1 no-key=pass",
        ),
        (
            fields(&[7], b": \xff"),
            NoKey::Pass,
            "fields rules=1 separator-bytes=:%20%FF field=7 no-key=pass",
        ),
    ] {
        assert_label(rule(part, no_key), words);
    }
    for (part, text, url, words) in [
        (Part::Whole, exact, urls().last(), URL_WORDS.to_owned()),
        (Part::Whole, ALL_TEXT, None, TEXT_WORDS.to_owned()),
        (
            json(&["url"]),
            ALL_TEXT,
            urls().last(),
            format!("json rules=1 key=/url no-key=pass {TEXT_WORDS} {URL_WORDS}"),
        ),
    ] {
        let rule = rule(part, NoKey::Pass);
        assert_label(Rule { text, url, ..rule }, &words);
    }
}

#[test]
fn rules_beyond_the_standard_have_words_of_their_own() {
    let url = Some(UrlRule::default());
    let pages = PageRules {
        drop_query: ["@tracking", "PHPSESSID"].map(str::to_owned).to_vec(),
        ignore_scheme: true,
        ..PageRules::default()
    };
    let rule = Rule {
        url,
        pages,
        ..Rule::default()
    };
    assert_eq!(
        rule.to_string(),
        "as URLs (--url --drop-query '@tracking,PHPSESSID' --ignore-scheme)"
    );
    let words = "url rules=2 not-url=pass pages rules=1 drop-query=@tracking drop-query=PHPSESSID ignore-scheme";
    assert_label(rule, words);
    for words in [
        "url rules=2 not-url=pass pages",
        "url rules=2 not-url=pass pages rules=1",
        "url rules=2 not-url=pass pages rules=2 lower-path",
        "url rules=2 not-url=pass pages rules=1 drop-query=@other",
        "url rules=2 not-url=pass pages rules=1 drop-query=",
        "url rules=2 not-url=pass pages rules=1 lower-path ignore-scheme",
        "pages rules=1 lower-path",
    ] {
        let label = format!("everseen lines: {words}");
        assert_eq!(Kept::of_label(label.as_bytes()), Kept::Unknown, "{words}");
    }
}

const ALL_TEXT: TextRule = TextRule {
    crlf: true,
    trim: true,
    ignore_case: true,
};
const TEXT_WORDS: &str = "text crlf trim ignore-case";
const URL_WORDS: &str = "url rules=8 sort-query drop-www not-url=drop";

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
        b"text",
        b"text trim crlf",
        b"text trim trim",
        b"csv rules=1 delimiter=, header=yes no-key=pass",
        b"csv rules=2 delimiter=, header=yes name=a no-key=pass",
        b"csv rules=1 delimiter=,, header=yes name=a no-key=pass",
        b"csv rules=1 delimiter= header=yes name=a no-key=pass",
        b"csv rules=1 delimiter=, header=maybe name=a no-key=pass",
        b"csv rules=1 delimiter=, header=yes name=1 no-key=pass",
        b"csv rules=1 delimiter=, header=yes column=0 no-key=pass",
        b"csv rules=1 delimiter=, header=yes column=01 no-key=pass",
        b"csv rules=1 delimiter=, header=yes name=a name=a no-key=pass",
        b"csv rules=1 delimiter=, header=yes name=a",
        b"fields rules=1 separator=blank no-key=pass",
        b"fields rules=1 separator=blank field=0 no-key=pass",
        b"fields rules=1 separator=tab field=1 no-key=pass",
        b"fields rules=1 separator-bytes= field=1 no-key=pass",
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
    let rule = JsonRule::new(&pointers[..3]).expect("they fit");
    let part = Part::Json(rule);
    let rule = Rule {
        part,
        ..Rule::default()
    };
    assert!(rule.label().len() < 4096);
    assert_eq!(JsonRule::new(&pointers), Err(PointerError::TooMany));
    let columns: Vec<_> = (0..5).map(|number| Column::Name(long(number))).collect();
    assert!(CsvRule::new(&columns[..3], b',').is_ok());
    assert_eq!(CsvRule::new(&columns, b','), Err(ColumnError::TooMany));
    let separator = Separator::Bytes(vec![b'x'; 101]);
    assert_eq!(FieldsRule::new(&[1], separator), Err(ColumnError::TooMany));
    let numbers: Vec<_> = (1..1000).collect();
    assert_eq!(
        FieldsRule::new(&numbers, Separator::Blank),
        Err(ColumnError::TooMany)
    );
}

#[test]
fn values_that_make_no_sense_are_refused() {
    assert_eq!(CsvRule::new(&[], b','), Err(ColumnError::Empty));
    let twice = [Column::Number(1), Column::Number(1)];
    let name = "1".to_owned();
    assert_eq!(CsvRule::new(&twice, b','), Err(ColumnError::Twice { name }));
    assert_eq!(
        FieldsRule::new(&[0], Separator::Blank),
        Err(ColumnError::Number)
    );
    let none = Separator::Bytes(Vec::new());
    assert_eq!(FieldsRule::new(&[1], none), Err(ColumnError::NoSeparator));
}

#[test]
fn messages_name_the_options() {
    let rule = |part, no_key, text, url| {
        Rule {
            part,
            no_key,
            text,
            url,
            ..Rule::default()
        }
        .to_string()
    };
    let (pass, exact) = (NoKey::Pass, TextRule::default());
    let trim = TextRule {
        trim: true,
        ..exact
    };
    assert_eq!(rule(Part::Whole, pass, exact, None), "byte by byte");
    assert_eq!(rule(Part::Whole, pass, trim, None), "byte by byte (--trim)");
    assert_eq!(
        rule(
            csv(&["u", "2"], b'\t', false),
            NoKey::Drop,
            trim,
            Some(UrlRule::default())
        ),
        "by a column of CSV, as URLs (--csv-key u --csv-key 2 --tsv --no-header --no-key drop --trim --url)"
    );
    assert_eq!(
        rule(fields(&[3], b"|\t"), pass, exact, None),
        "by a field (--key-field 3 --field-separator '|\\t')"
    );
}
