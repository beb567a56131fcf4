//! A store keeps how its lines are read, and the commands follow it.

use std::fs;

use everseen::testing::Options;
use everseen::{Kind, Store};

use crate::support::{Lab, Ran, json};

/// Two spellings of one URL, and with `--sort-query` of the same as the third.
const SPELLINGS: &[u8] = b"http://a.org/?b&a\nHTTP://A.org:80/?b&a#top\nhttp://a.org/?a&b\n";

fn run(lab: &Lab, line: &str) -> Ran {
    lab.run(&line.split(' ').collect::<Vec<_>>())
}

/// A folder with the lists `urls`, `other` (its first line in another spelling) and `stray`.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("urls", SPELLINGS);
    lab.write("other", b"http://a.ORG/?a&b\n");
    lab.write("stray", b"no url\n");
    lab
}

fn info(lab: &Lab, store: &str) -> (serde_json::Value, String) {
    let text = lab.run(&["info", store]).expect(0);
    let json = json(&lab.run(&["info", "--json", store]).expect(0));
    (json, String::from_utf8(text).expect("text"))
}

#[test]
fn commands_read_lines_as_the_store_was_created_to() {
    let lab = lab();
    let first = b"http://a.org/?b&a\n";
    let dedup = run(&lab, "dedup --url --sort-query seen urls");
    assert_eq!(dedup.expect(0), first);
    for options in ["", " --url", " --url --sort-query"] {
        let dedup = run(&lab, &format!("dedup{options} seen other"));
        assert_eq!(dedup.expect(0), b"", "{options}");
        let check = run(&lab, &format!("check{options} seen other"));
        assert_eq!(check.expect(0), b"http://a.ORG/?a&b\n", "{options}");
        let added = run(&lab, &format!("add{options} --json seen other"));
        assert_eq!(json(added.err.as_bytes())["new"], 0, "{options}");
    }

    let create = "create counts --kind counting --capacity 10 --url --sort-query";
    run(&lab, create).expect(0);
    run(&lab, "add counts urls").expect(0);
    let removed = run(&lab, "remove --json counts other");
    assert_eq!(json(removed.err.as_bytes())["removed"], 1);

    run(&lab, "create holes --url --sort-query").expect(0);
    let exempted = run(&lab, "exempt --json holes urls");
    assert_eq!(json(exempted.err.as_bytes())["exempted"], 1);
}

#[test]
fn lines_are_compared_byte_by_byte_where_the_store_was_created_to() {
    let lab = lab();
    for create in ["dedup plain stray", "create made", "create sure --no-url"] {
        run(&lab, create).expect(0);
        let store = create.split(' ').nth(1).expect("its name");
        for options in ["", " --no-url"] {
            let check = run(&lab, &format!("check -v{options} {store} urls"));
            assert_eq!(check.expect(0), SPELLINGS, "{store}{options}");
        }
        let (json, text) = info(&lab, store);
        assert_eq!(json["label"], "everseen lines: bytes");
        assert_eq!(json["lines"]["url"], false);
        assert!(
            text.contains("lines       compared byte by byte\n"),
            "{text}"
        );
    }
}

#[test]
fn an_option_that_contradicts_the_store_is_refused() {
    let lab = lab();
    run(&lab, "dedup --url --not-url drop seen urls").expect(0);
    run(&lab, "dedup plain urls").expect(0);
    let create = "create counts --kind counting --capacity 10";
    run(&lab, create).expect(0);
    let url = "as URLs (--url --not-url drop)";
    for (command, kept, asked) in [
        ("dedup seen urls --no-url", url, "--no-url"),
        ("dedup -o out seen urls --no-url", url, "--no-url"),
        ("dedup seen urls --url --sort-query", url, "--sort-query"),
        ("add seen urls --url --drop-www", url, "--drop-www"),
        ("add seen urls --drop-www", url, "--drop-www"),
        (
            "check plain urls --sort-query",
            "byte by byte",
            "--sort-query",
        ),
        (
            "dedup plain urls --not-url drop",
            "byte by byte",
            "--not-url",
        ),
        ("check seen urls --no-url", url, "--no-url"),
        ("exempt seen urls --no-url", url, "--no-url"),
        ("dedup plain urls --url", "byte by byte", "--url"),
        ("add plain urls --url", "byte by byte", "--url"),
        ("check -q plain urls --url", "byte by byte", "--url"),
        ("remove counts urls --url", "byte by byte", "--url"),
    ] {
        let store = ["seen", "plain", "counts"].map(|name| fs::read(lab.path(name)).expect("it"));
        let ran = run(&lab, command);
        let name = command
            .split(' ')
            .find(|word| ["seen", "plain", "counts"].contains(word));
        let name = name.expect("a store");
        let otherwise = match name {
            "counts" => "remove the store, which has no keys yet, and run this again",
            _ => "name another store",
        };
        assert_eq!(
            ran.err,
            format!(
                "everseen: {name}: was created to compare lines {kept}, which {asked} contradicts; leave {asked} out, or \
                 {otherwise}\n"
            )
        );
        assert_eq!((ran.code, ran.out), (Some(2), Vec::new()), "{command}");
        let now = ["seen", "plain", "counts"].map(|name| fs::read(lab.path(name)).expect("it"));
        assert!(now == store, "{command}");
        assert!(!lab.path("out").exists(), "{command}");
    }
    let both = run(&lab, "dedup seen urls --url --no-url");
    assert_eq!(both.code, Some(2));
    assert!(both.err.contains("cannot be used with"), "{}", both.err);
}

#[test]
fn what_becomes_of_other_lines_is_kept_and_can_be_chosen_anew() {
    let lab = lab();
    run(&lab, "dedup --url --not-url drop seen urls").expect(0);
    assert_eq!(run(&lab, "dedup seen stray").expect(0), b"");
    let pass = run(&lab, "dedup --url --not-url pass seen stray");
    assert_eq!(pass.expect(0), b"no url\n");
    // The store says that lines are URLs.
    let pass = run(&lab, "check --not-url pass seen stray");
    assert_eq!(pass.expect(0), b"no url\n");
    let (json, text) = info(&lab, "seen");
    let lines = &json["lines"];
    assert_eq!((&lines["url"], &lines["rules"]), (&true.into(), &2.into()));
    assert_eq!(lines["not_url"], "drop");
    let kept = "lines       compared as URLs (--url --not-url drop)\n";
    assert!(text.contains(kept), "{text}");
}

/// Stores that the library or an earlier build of the command has created, and those of other programs.
#[test]
fn a_store_that_keeps_no_reading_is_read_as_the_command_line_says() {
    let lab = lab();
    for (name, options) in [
        ("old", Options::new()),
        ("foreign", Options::new().label(b"\xFFmine")),
    ] {
        lab.bare_store(name, &options);
        let urls = run(&lab, &format!("dedup --url {name} urls")).expect(0);
        assert_eq!(urls, b"http://a.org/?b&a\nhttp://a.org/?a&b\n");
        let check = run(&lab, &format!("check {name} other"));
        assert_eq!(check.expect(1), b"");
        let check = run(&lab, &format!("check --url {name} other"));
        assert_eq!(check.expect(0), b"http://a.ORG/?a&b\n");
        let (json, text) = info(&lab, name);
        assert!(json["lines"].is_null() && json["label"].is_null(), "{json}");
        let shown = text.contains("label       \"\\xffmine\"\n");
        assert_eq!(shown, name == "foreign", "{text}");
        let hex = if shown {
            "ff6d696e65".into()
        } else {
            serde_json::Value::Null
        };
        assert_eq!(json["label_hex"], hex);
    }
}

#[test]
fn rules_that_this_build_does_not_know_are_refused() {
    let lab = lab();
    lab.bare_store(
        "rules",
        &Options::new().label(b"everseen lines: url rules=3 not-url=pass"),
    );
    lab.bare_store("words", &Options::new().label(b"everseen lines: words\n"));
    for command in ["dedup", "add", "check", "exempt"] {
        for options in ["", " --url"] {
            let ran = run(&lab, &format!("{command}{options} rules urls"));
            assert_eq!(
                ran.err,
                "everseen: rules: compares URLs by version 3 of the rules, and this program knows versions up to 2; use \
                 a newer program\n"
            );
            assert_eq!(ran.code, Some(2));
        }
        let ran = run(&lab, &format!("{command} words urls"));
        assert_eq!(
            ran.err,
            "everseen: words: its lines are read in a way that this program does not know (everseen lines: \
             words\\n); use a newer program\n"
        );
        assert_eq!(ran.code, Some(2));
    }
    // All that needs no lines works.
    let (json, text) = info(&lab, "words");
    assert_eq!(json["label"], "everseen lines: words\n");
    assert!(
        text.contains("label       \"everseen lines: words\\n\"\n"),
        "{text}"
    );
    run(&lab, "verify words").expect(0);
}

/// A store keeps the version of the rules that it was created with, so that it finds its keys.
#[test]
fn a_store_of_an_earlier_version_is_read_by_it() {
    let lab = lab();
    let lines = b"http://a.org/c:/..\nhttp://a.org/c:/\nhttp://a.org/caf\xe9\n";
    lab.write("odd", lines);
    let old = Options::new().label(b"everseen lines: url rules=1 not-url=pass");
    lab.bare_store("old", &old);
    // By version 1, the first two are one URL and the third is none.
    let ran = run(&lab, "dedup old odd");
    assert!(ran.err.contains("odd:3: not a URL"), "{}", ran.err);
    let expected = b"http://a.org/c:/..\nhttp://a.org/caf\xe9\n";
    assert!(ran.expect(0) == expected);
    assert!(run(&lab, "check old odd").expect(0) == lines);
    assert_eq!(info(&lab, "old").0["lines"]["rules"], 1);
    run(&lab, "create like --like old").expect(0);
    assert_eq!(info(&lab, "like").0["lines"]["rules"], 1);
    // By version 2, the first is another page, and the third is the one that browsers ask for.
    let ran = run(&lab, "dedup --url new odd");
    assert_eq!(ran.err, "");
    assert!(ran.expect(0) == lines);
    lab.write("same", b"http://a.org/\nhttp://a.org/caf%E9\n");
    assert_eq!(run(&lab, "dedup new same").expect(0), b"");
}

#[test]
fn copies_and_stores_like_it_keep_it() {
    let lab = lab();
    let label = |store: &str| {
        let store = Store::open(lab.path(store)).expect("a store");
        let label = store.label().map(<[u8]>::to_vec);
        String::from_utf8(label.unwrap_or_default()).expect("text")
    };
    let kept = "everseen lines: url rules=2 drop-www not-url=pass";
    let create = "create one --capacity 1000 --foldable 1 --url --drop-www";
    run(&lab, create).expect(0);
    for command in [
        "create two --like one",
        "snapshot one copy",
        "fold one half --pages 1",
        "union both one two",
        "union again both",
    ] {
        run(&lab, command).expect(0);
    }
    for name in ["one", "two", "copy", "half", "both", "again"] {
        assert_eq!(label(name), kept, "{name}");
    }
    // Nothing but the reading differs.
    let options = Options::new().like(lab.path("one"));
    let options = options.label(b"everseen lines: bytes");
    lab.bare_store("bytes", &options);
    let ran = run(&lab, "union wrong one bytes");
    ran.expect_error(
        "bytes: can't be merged with one: its label is \"everseen lines: bytes\", not \"everseen lines: url \
         rules=2 drop-www not-url=pass\"",
    );
    lab.bare_store("bare", &options.label(b""));
    run(&lab, "union mixed one bare").expect(0);
    assert_eq!(label("mixed"), "");
    run(&lab, "create three --like one --url")
        .expect_error("--like creates a store that compares lines as the other one does");
    assert!(!lab.path("three").exists());
}

#[test]
fn kinds_of_stores_are_no_matter() {
    let lab = lab();
    for kind in [Kind::Bloom, Kind::Counting, Kind::Scalable] {
        let create = format!("dedup --kind {kind} --capacity 1000 --url {kind} urls");
        run(&lab, &create).expect(0);
        assert_eq!(run(&lab, &format!("dedup {kind} other")).expect(0), b"");
    }
}
