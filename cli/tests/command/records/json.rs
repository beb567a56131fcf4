//! `--json-key`: a value of a JSON record is its key.

use std::collections::HashSet;
use std::fmt::Write;

use everseen::testing::Options;
use serde_json::Value;

use crate::support::{Lab, Ran, items, json};

const RECORDS: &[u8] = br#"{"url":"http://a/","n":1}
 {"n" : 2, "url" : "http:\/\/a\u002f"}
{"url":"http://b/","n":1}
{"url":"HTTP://A","meta":{"id":1.0}}
{"url":"x","meta":{"id":1}}
"#;

fn run(lab: &Lab, line: &str) -> Ran {
    lab.run(&line.split(' ').collect::<Vec<_>>())
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("records", RECORDS);
    lab.write(
        "stray",
        b"{\"n\":1}\n{\"url\":null}\nx\n{\"url\":\"x\"}\n{\"url\":\"x\n",
    );
    lab
}

/// Some lines of the records.
fn lines(numbers: &[usize]) -> Vec<u8> {
    let all = items(b'\n', RECORDS);
    let lines = numbers
        .iter()
        .map(|number| [all[number - 1], b"\n"].concat());
    lines.collect::<Vec<_>>().concat()
}

#[test]
fn the_value_is_compared_and_the_whole_record_printed() {
    for (options, printed) in [
        ("--json-key url", &[1, 3, 4, 5][..]),
        ("--json-key /url", &[1, 3, 4, 5]),
        ("--json-key url --url", &[1, 3, 5]),
        ("--json-key n --no-key drop", &[1, 2]),
        ("--json-key .meta.id --no-key drop", &[4]),
        ("--json-key url --json-key n --no-key drop", &[1, 2, 3]),
    ] {
        let lab = lab();
        let dedup = run(&lab, &format!("dedup -q {options} seen records"));
        let got = dedup.expect(0);
        assert_eq!(
            got.escape_ascii().to_string(),
            lines(printed).escape_ascii().to_string(),
            "{options}"
        );
        // The store knows the rule.
        assert_eq!(
            run(&lab, "dedup -q seen records").expect(0),
            b"",
            "{options}"
        );
        let again = run(&lab, &format!("dedup -q {options} seen records"));
        assert_eq!(again.expect(0), b"", "{options}");
    }
}

#[test]
fn all_commands_follow_the_rule_of_the_store() {
    let lab = lab();
    lab.write("other", b"{\"more\":[],\"url\":\"\\u0068ttp://a/\"}\n");
    run(
        &lab,
        "create counts --kind counting --capacity 10 --json-key url",
    )
    .expect(0);
    let added = run(&lab, "add --json counts records");
    assert_eq!(json(added.err.as_bytes())["new"], 4);
    let other = b"{\"more\":[],\"url\":\"\\u0068ttp://a/\"}\n";
    assert_eq!(run(&lab, "check counts other").expect(0), other);
    assert_eq!(
        run(&lab, "check --json-key url counts other").expect(0),
        other
    );
    let removed = run(&lab, "remove --json counts other");
    assert_eq!(json(removed.err.as_bytes())["removed"], 1);
    run(&lab, "create holes --json-key url").expect(0);
    let exempted = run(&lab, "exempt --json holes records");
    assert_eq!(json(exempted.err.as_bytes())["exempted"], 4);

    let text = run(&lab, "info counts").expect(0);
    let text = String::from_utf8(text).expect("text");
    assert!(
        text.contains("lines       compared by a key in JSON (--json-key /url)\n"),
        "{text}"
    );
    let info = json(&run(&lab, "info --json counts").expect(0));
    let kept = serde_json::json!({
        "part": "json", "keys": ["/url"], "no_key": "pass",
        "crlf": false, "trim": false, "ignore_case": false, "url": false, "rules": null, "sort_query": false, "drop_www": false, "not_url": null,
        "drop_query": [], "keep_query": [], "drop_session_path": false, "ignore_scheme": false,
        "drop_trailing_slash": false, "lower_path": false
    });
    assert_eq!(info["lines"], kept);
    assert_eq!(
        info["label"],
        "everseen lines: json rules=1 key=/url no-key=pass"
    );
    // What a program inserts meets the same keys.
    run(&lab, "create plain").expect(0);
    run(&lab, "create like --like counts").expect(0);
    assert_eq!(
        json(&run(&lab, "info --json like").expect(0))["lines"],
        kept
    );
}

#[test]
fn another_rule_than_the_store_s_is_an_error() {
    let lab = lab();
    run(&lab, "dedup -q --json-key url --no-key drop seen records").expect(0);
    run(&lab, "dedup -q --json-key url --url urls records").expect(0);
    run(&lab, "dedup -q lines records").expect(0);
    run(&lab, "dedup -q --url whole records").expect(0);
    let by = "by a key in JSON";
    for (command, store, kept, asked) in [
        (
            "--json-key id",
            "seen",
            "(--json-key /url --no-key drop)",
            "--json-key /id",
        ),
        (
            "--json-key url --json-key id",
            "seen",
            "(--json-key /url --no-key drop)",
            "--json-key /url --json-key /id",
        ),
        ("--url", "seen", "(--json-key /url --no-key drop)", "--url"),
        (
            "--not-url drop",
            "seen",
            "(--json-key /url --no-key drop)",
            "--not-url",
        ),
        ("--no-url", "urls", "(--json-key /url --url)", "--no-url"),
        (
            "--sort-query",
            "urls",
            "(--json-key /url --url)",
            "--sort-query",
        ),
        (
            "--json-key id",
            "urls",
            "(--json-key /url --url)",
            "--json-key /id",
        ),
        ("--json-key url", "lines", "byte by byte", "--json-key /url"),
        ("--no-key drop", "lines", "byte by byte", "--no-key"),
        (
            "--json-key url --url",
            "whole",
            "as URLs (--url)",
            "--json-key /url",
        ),
    ] {
        let before = std::fs::read(lab.path(store)).expect("a store");
        for name in ["dedup", "add", "check", "exempt"] {
            let ran = run(&lab, &format!("{name} {store} records {command}"));
            let kept = match store {
                "seen" => format!("{by} {kept}"),
                "urls" => format!("{by}, as URLs {kept}"),
                _ => kept.to_owned(),
            };
            assert_eq!(
                ran.err,
                format!(
                    "everseen: {store}: was created to compare lines {kept}, which {asked} contradicts; leave {asked} \
                     out, or name another store\n"
                )
            );
            assert_eq!((ran.code, ran.out), (Some(2), Vec::new()));
        }
        assert!(std::fs::read(lab.path(store)).expect("a store") == before);
    }
    // What becomes of others changes no key.
    run(&lab, "check -q --no-key pass seen records").expect(0);
    run(&lab, "check -q --no-url seen records").expect(0);
}

#[test]
fn records_without_a_key_are_passed_or_dropped_and_told() {
    let reasons = [
        ("1", "it has no /url: \"{\\\"n\\\":1}\""),
        ("2", "its /url is null: \"{\\\"url\\\":null}\""),
        ("3", "it is not JSON: expected value, at byte 1: \"x\""),
        (
            "5",
            "it is not JSON: it ends too early: \"{\\\"url\\\":\\\"x\"",
        ),
    ];
    let all = b"{\"n\":1}\n{\"url\":null}\nx\n{\"url\":\"x\"}\n{\"url\":\"x\n";
    for (what, fate, printed, stats) in [
        (
            "pass",
            "compared as a whole",
            &all[..],
            "5 lines, 5 new, 0 seen, 4 of them without a key, ",
        ),
        (
            "drop",
            "dropped",
            b"{\"url\":\"x\"}\n",
            "5 lines, 1 new, 0 seen, 4 without a key and dropped, ",
        ),
    ] {
        let lab = lab();
        let ran = run(
            &lab,
            &format!("dedup --stats --json-key url --no-key {what} seen stray"),
        );
        let mut told: Vec<_> = ran.err.lines().collect();
        let sum = told.pop().expect("a summary");
        assert!(sum.starts_with(stats), "{sum}");
        let expected = reasons
            .map(|(line, reason)| format!("everseen: stray:{line}: no key, {fate}: {reason}"));
        assert_eq!(told, expected);
        assert_eq!(ran.expect(0), printed);
        let ran = run(&lab, "dedup -q seen stray");
        assert_eq!((ran.err.as_str(), ran.code), ("", Some(0)));
        assert_eq!(ran.out, b"", "the store keeps what becomes of them");
    }
    // Only the first ones.
    let lab = lab();
    let many = b"x\n".repeat(1_000);
    for command in ["dedup", "add", "check"] {
        let ran = lab.run_on(
            &[command, "--json-key", "k", "--no-key", "drop", "many"],
            &many,
        );
        let told: Vec<_> = ran.err.lines().collect();
        let reason = "no key, dropped: it is not JSON: expected value, at byte 1: \"x\"";
        assert_eq!(told[4], format!("everseen: standard input:5: {reason}"));
        assert_eq!(
            told[5..],
            [
                "everseen: 995 more lines have no key; dropped",
                "everseen: no record has a key: is its name spelled as it is there, case included? A new store keeps what \
                 it was asked for, so remove it before you ask for another"
            ]
        );
        assert_eq!(ran.out, b"");
    }
}

#[test]
fn a_record_without_a_key_can_end_the_command() {
    let lab = lab();
    let line = "{\"k\":\"some text that is different\"}\n";
    let mut input = String::new();
    for number in 0..50_000 {
        let _ = write!(input, "{{\"k\":{number}}}\n{line}");
    }
    let (before, line) = (input.len(), 100_001);
    input += "{\"n\":1}\n{\"k\":\"after\"}\n";
    for (command, printed) in [
        ("dedup", 50_001),
        ("add", 0),
        ("check", 50_001 + 50_000 - 1),
    ] {
        let args = [command, "--json-key", "k", "--no-key", "fail", "seen"];
        if command == "add" {
            lab.run(&["create", "seen2", "--json-key", "k"]).expect(0);
        }
        let args = match command {
            "add" => ["add", "--json-key", "k", "--no-key", "fail", "seen2"],
            _ => args,
        };
        let ran = lab.run_on(&args, input.as_bytes());
        let expected = format!(
            "everseen: standard input:{line}: no key: it has no /k; the lines before it are done (--no-key pass or drop \
             goes on after such a line)"
        );
        assert_eq!(ran.err.lines().last(), Some(&*expected), "{command}");
        assert_eq!(ran.code, Some(2));
        assert_eq!(items(b'\n', &ran.out).len(), printed, "{command}");
    }
    // Everything before is remembered, and nothing behind it.
    for store in ["seen", "seen2"] {
        let seen = lab.run_on(&["check", "-c", store], &input.as_bytes()[..before]);
        assert_eq!(seen.expect(0), b"100000\n");
        let after = lab.run_on(
            &["check", "-c", store, "--no-key", "drop"],
            b"{\"k\":\"after\"}\n",
        );
        assert_eq!(after.expect(1), b"0\n");
    }
}

/// A line without a key must not be lost because a key looks like it.
#[test]
fn a_line_without_a_key_is_no_key() {
    let lab = lab();
    let input = b"{\"k\":\"x\"}\nx\n{\"k\":\"{\\\"n\\\":1}\"}\n{\"n\":1}\n{\"k\":\"\"}\n\n";
    let ran = lab.run_on(&["dedup", "-q", "--json-key", "k", "seen"], input);
    assert_eq!(ran.expect(0), input);
    let again = lab.run_on(&["dedup", "-q", "seen"], input);
    assert_eq!(again.expect(0), b"");
}

#[test]
fn values_that_are_no_urls_follow_the_other_option() {
    let lab = lab();
    let input = b"{\"k\":\"no url\"}\n{\"k\":\"no url\",\"n\":2}\n{\"n\":3}\n{\"k\":\"http://a#1\"}\n{\"k\":\"http://a#2\"}\n";
    let args = ["dedup", "--stats", "--json-key", "k", "--url", "seen"];
    let ran = lab.run_on(&args, input);
    let told: Vec<_> = ran.err.lines().collect();
    let relative = "not a URL, kept as it is: it has no scheme, such as https:, so it would be relative to another URL";
    assert_eq!(
        told[0],
        format!("everseen: standard input:1: {relative}: \"{{\\\"k\\\":\\\"no url\\\"}}\"")
    );
    assert!(
        told[3]
            .starts_with("5 lines, 3 new, 2 seen, 1 of them without a key, 2 of them not URLs, "),
        "{}",
        ran.err
    );
    let kept = b"{\"k\":\"no url\"}\n{\"n\":3}\n{\"k\":\"http://a#1\"}\n";
    assert_eq!(ran.expect(0), kept);
    let args = [
        "dedup",
        "-q",
        "--json-key",
        "k",
        "--url",
        "--not-url",
        "drop",
        "--no-key",
        "drop",
        "other",
    ];
    assert_eq!(
        lab.run_on(&args, input).expect(0),
        b"{\"k\":\"http://a#1\"}\n"
    );
}

#[test]
fn separators_compression_and_stores_without_a_label_are_no_matter() {
    let lab = lab();
    // A line end in a record, and a carriage return behind one.
    let args = ["dedup", "-q", "-0", "--json-key", "k", "nul"];
    let input = b"{\"k\":\n1}\0{\"k\":1}\r\0{\"k\":2}";
    assert_eq!(
        lab.run_on(&args, input).expect(0),
        b"{\"k\":\n1}\0{\"k\":2}\0"
    );
    let args = ["dedup", "-q", "--json-key", "k", "crlf"];
    let input = b"\xef\xbb\xbf{\"k\":1}\r\n{\"k\":1}\n{\"k\":2}";
    assert_eq!(
        lab.run_on(&args, input).expect(0),
        b"\xef\xbb\xbf{\"k\":1}\r\n{\"k\":2}\n"
    );

    lab.bare_store("bare", &Options::new());
    lab.write("keys", b"http://a/\nhttp://b/\n");
    run(&lab, "add bare keys").expect(0);
    let known = lines(&[1, 2, 3]);
    assert_eq!(
        run(&lab, "check --json-key url bare records").expect(0),
        known
    );
    assert_eq!(run(&lab, "check bare records").expect(1), b"");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let lab = lab();
    lab.bare_store("bare", &Options::new());
    for command in [
        "dedup new",
        "create new",
        "dedup bare",
        "add bare",
        "check bare",
        "exempt bare",
    ] {
        run(&lab, &format!("{command} --no-key drop")).expect_error(
            "--no-key: needs --json-key, --csv-key or --key-field, since the store does not say so of its records",
        );
        run(&lab, &format!("{command} --json-key a --json-key /a"))
            .expect_error("--json-key: /a: is given twice");
        run(&lab, &format!("{command} --json-key a --json-key a.b"))
            .expect_error("--json-key: /a/b: lies within /a, which is a part of the key already");
        run(&lab, &format!("{command} --json-key a --json-key b --url"))
            .expect_error("--url: needs a key of one value, since several together are not a URL");
        let ran = lab.run(
            &[
                &command.split(' ').collect::<Vec<_>>()[..],
                &["--json-key", ""],
            ]
            .concat(),
        );
        assert!(
            ran.err
                .contains("the path is empty; name a member, such as url"),
            "{}",
            ran.err
        );
        assert_eq!(ran.code, Some(2));
        assert!(!lab.path("new").exists(), "{command}");
    }
    run(&lab, "dedup -q seen records --json-key url").expect(0);
    run(&lab, "create like --like seen --json-key url")
        .expect_error("--like creates a store that compares lines as the other one does");
}

/// Records of several shapes, some of them broken, with few keys.
fn record(random: &mut fastrand::Rng) -> Vec<u8> {
    let key = match random.u8(..4) {
        0 => format!("{}", random.u8(..20)),
        1 => format!("\"\\u006{}\\\"{}\"", random.u8(1..4), random.u8(..9)),
        2 => format!(
            "\"{}\\\"{}\"",
            ["a", "b", "c"][random.usize(..3)],
            random.u8(..9)
        ),
        _ => ["null", "[1, 2]", "{\"b\":1,\"a\":2}", "{\"a\":2, \"b\":1}"][random.usize(..4)]
            .to_owned(),
    };
    let more = ["\"x\":[{\"key\":7}]", "\"x\":\"a\\\\\"", "\"x\": 1.5e3"][random.usize(..3)];
    let text = match random.u8(..8) {
        0 => format!("{{{more}}}"),
        1 => format!("{{{more}, \"key\":{key}"),
        2 => format!("{{\"key\": 0 ,\"key\":{key},{more}}}\r"),
        3 => format!("\t{{ \"key\" : {key} ,{more}}} "),
        4 => format!("[{key}]"),
        _ => format!("{{{more},\"key\":{key}}}"),
    };
    let mut text = text.into_bytes();
    if random.u8(..10) == 0 {
        let at = random.usize(..text.len());
        text[at] = b"}\"x,\0"[random.usize(..5)];
    }
    text
}

/// The key by a parser that keeps the whole record: its text as `serde_json` writes it, without the quotes of a string.
fn key_of(record: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(record).ok()?;
    match value.get("key")? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[test]
fn prints_what_a_set_of_parsed_keys_lets_through() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let records: Vec<_> = (0..100_000).map(|_| record(&mut random)).collect();
    let (mut seen, mut expected, mut keyless) = (HashSet::new(), Vec::new(), 0);
    for record in &records {
        let key = key_of(record);
        keyless += usize::from(key.is_none());
        let own = || [b"\xff", &record[..]].concat();
        if seen.insert(key.map_or_else(own, String::into_bytes)) {
            expected.extend_from_slice(record);
            expected.push(b'\n');
        }
    }
    assert!(keyless > 10_000 && expected.len() > 1_000);
    let lab = Lab::new();
    let input = records
        .iter()
        .flat_map(|record| [record, &b"\n"[..]].concat());
    let input: Vec<u8> = input.collect();
    let ran = lab.run_on(&["dedup", "--stats", "--json-key", "key", "seen"], &input);
    let told = format!(
        "{} more lines have no key; compared as a whole",
        keyless - 5
    );
    assert!(ran.err.replace(',', "").contains(&told), "{}", ran.err);
    let printed = ran.expect(0);
    assert!(
        printed == expected,
        "{} and {} bytes",
        printed.len(),
        expected.len()
    );
}
