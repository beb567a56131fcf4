//! `--url`: one key for all spellings of a URL.

use crate::support::{Lab, distinct_lines, items};

const SPELLINGS: &[u8] = b"HTTP://Example.org:80/a/../b#top\n\
    http://example.org/b\n\
    http://example.org/B\n\
    http://example.org/b?y=2&x=1\r\n\
    http://example.org/b?x=1&y=2\n\
    http://www.example.org/b\n";

/// Lines of an output, as text.
fn lines(output: &[u8]) -> Vec<&str> {
    let line = |item| str::from_utf8(item).expect("text");
    items(b'\n', output).into_iter().map(line).collect()
}

#[test]
fn the_first_spelling_is_printed_as_it_was_given() {
    let all = lines(SPELLINGS);
    for (options, printed) in [
        (&[][..], &[0, 1, 2, 3, 4, 5][..]),
        (&["--url"], &[0, 2, 3, 4, 5]),
        (&["--url", "--sort-query"], &[0, 2, 3, 5]),
        (&["--url", "--drop-www"], &[0, 2, 3, 4]),
        (&["--url", "--drop-www", "--sort-query"], &[0, 2, 3]),
    ] {
        let lab = Lab::new();
        let dedup = [&["dedup", "store"], options].concat();
        let ran = lab.run_on(&dedup, SPELLINGS);
        // A carriage return is part of a line, and none of a URL.
        let has_notice = ran.err.contains(":4: ends with a carriage return");
        assert_eq!(has_notice, options.is_empty(), "{options:?}");
        let expected: Vec<_> = printed.iter().map(|line| all[*line]).collect();
        assert_eq!(lines(&ran.expect(0)), expected, "{options:?}");
        // Neither the next time, nor another spelling.
        let again = lab.run_on(&dedup, &[SPELLINGS, b"http://EXAMPLE.org/b#x"].concat());
        let new = usize::from(options.is_empty());
        assert_eq!(items(b'\n', &again.expect(0)).len(), new, "{options:?}");
    }
}

#[test]
fn paths_of_another_case_are_two_with_and_without() {
    let input = b"http://example.org/index.html\nhttp://example.org/INDEX.html\n";
    for args in [&["dedup", "store"][..], &["dedup", "--url", "store"]] {
        let lab = Lab::new();
        assert_eq!(lab.run_on(args, input).expect(0), input);
    }
}

#[test]
fn add_and_check_know_a_url_by_any_spelling() {
    let lab = Lab::new();
    lab.bare_store("store", &everseen::testing::Options::new());
    let ran = lab.run_on(&["add", "--url", "--stats", "store"], SPELLINGS);
    assert_eq!(ran.err, "6 lines, 5 new, 0 of them not URLs\n");
    let input = b"http://EXAMPLE.org/%2e/b\nhttp://example.org/c\n";
    let known = b"http://EXAMPLE.org/%2e/b\n";
    let check = ["check", "--url", "store"];
    assert_eq!(lab.run_on(&check, input).expect(0), known);
    let check = ["check", "--url", "-v", "store"];
    assert_eq!(
        lab.run_on(&check, input).expect(0),
        b"http://example.org/c\n"
    );
    assert_eq!(lab.run_on(&["check", "store"], input).expect(1), b"");
    // What is kept is the normalised URL.
    let plain = b"http://example.org/b\n";
    assert_eq!(lab.run_on(&["check", "store"], plain).expect(0), plain);
}

#[test]
fn what_is_no_url_passes_as_it_is_or_is_dropped_and_is_counted() {
    let input = b"a/b\nhttp://x/\na/b\n\n\xff\x1b[2J\nHTTP://X\nA/B";
    for (what, told, printed, stats) in [
        (
            "pass",
            "kept as it is",
            &b"a/b\nhttp://x/\n\n\xff\x1b[2J\nA/B\n"[..],
            "7 lines, 5 new, 2 seen, 5 of them not URLs, ",
        ),
        (
            "drop",
            "dropped",
            b"http://x/\n",
            "7 lines, 1 new, 1 seen, 5 not URLs and dropped, ",
        ),
    ] {
        let lab = Lab::new();
        lab.write("one", b"\nhttp://x/\n");
        let args = ["dedup", "--url", "--not-url", what, "--stats", "store"];
        let ran = lab.run_on(&args, input);
        let relative = "it has no scheme, such as https:, so it would be relative to another URL";
        let expected = [
            format!("everseen: standard input:1: not a URL, {told}: {relative}: \"a/b\""),
            format!("everseen: standard input:3: not a URL, {told}: {relative}: \"a/b\""),
            format!("everseen: standard input:4: not a URL, {told}: the line is blank: \"\""),
            format!("everseen: standard input:5: not a URL, {told}: {relative}: \"\\xff\\x1b[2J\""),
            format!("everseen: standard input:7: not a URL, {told}: {relative}: \"A/B\""),
        ];
        let told_lines: Vec<_> = ran.err.lines().collect();
        assert_eq!(told_lines[..5], expected);
        assert!(told_lines[5].starts_with(stats), "{}", ran.err);
        assert_eq!(told_lines.len(), 6, "{}", ran.err);
        assert_eq!(ran.expect(0), printed);
        // Lines are counted for each file, and passing is what happens unless told.
        let pass: &[&str] = if what == "pass" {
            &[]
        } else {
            &["--not-url", what]
        };
        let ran = lab.run(&[&["dedup", "--url", "store", "one", "one"], pass].concat());
        let blank = format!("everseen: one:1: not a URL, {told}: the line is blank: \"\"\n");
        assert_eq!(ran.err, blank.repeat(2));
    }
}

/// A list with columns is mistaken for one of URLs. It is reported once, and nothing is refused: the standard wants it so.
#[test]
fn tabs_inside_urls_are_told_once() {
    let lab = Lab::new();
    let input = b"https://h.org/0\t\nhttps://h.org/1\t23\nhttps://h.org/12\t3\n\thttps://h.org/4\n";
    for command in ["dedup", "add", "check"] {
        let ran = lab.run_on(&[command, "--url", "one"], input);
        assert_eq!(
            ran.err,
            "everseen: standard input:2: lines with tabs: https://h.org/1<TAB>23 and https://h.org/12<TAB>3 are one URL \
             by the standard; the first is \"https://h.org/1\\t23\"\n",
            "{command}"
        );
        ran.expect(0);
    }
    let quiet = lab.run_on(&["dedup", "-q", "--url", "one"], input);
    assert_eq!((quiet.err.as_str(), quiet.code), ("", Some(0)));
    // Between the columns of a record, tabs are in no URL.
    for key in [
        &["--key-field", "2"][..],
        &["--csv-key", "2", "--tsv", "--no-header"],
    ] {
        let store = key[0].trim_start_matches('-');
        let args = [&["dedup", "--url"], key, &[store]].concat();
        let ran = lab.run_on(&args, b"1\thttps://h.org/1\tx\n");
        assert_eq!(ran.err, "");
    }
    // Columns that are no URLs are lines like others.
    let ran = lab.run_on(&["dedup", "--no-url", "three"], input);
    assert_eq!(ran.err, "");
    assert!(ran.expect(0) == input);
}

#[test]
fn only_the_first_ones_are_told() {
    let lab = Lab::new();
    let input = [&b"x\n".repeat(1_000)[..], b"http://a/\n"].concat();
    for command in ["dedup", "add", "check"] {
        let args = [command, "--url", "--not-url", "drop", "store"];
        let ran = lab.run_on(&args, &input);
        let told: Vec<_> = ran.err.lines().collect();
        assert!(
            told[..5]
                .iter()
                .all(|line| line.contains("not a URL, dropped: "))
        );
        assert_eq!(told[5], "everseen: 995 more lines are not URLs; dropped");
        assert_eq!(told[6..], [""; 0], "{command}");
        let printed: &[u8] = if command == "add" {
            b""
        } else {
            b"http://a/\n"
        };
        assert_eq!(ran.expect(0), printed, "{command}");
    }
}

#[test]
fn items_dropped_between_many_others_leave_them_whole() {
    let urls = distinct_lines(100_000);
    let mut random = fastrand::Rng::with_seed(11);
    let mut input = Vec::new();
    for url in items(b'\n', &urls) {
        for _ in 0..random.usize(..3) {
            input.extend(b"no URL ".repeat(random.usize(..20)));
            input.push(b'\n');
        }
        input.extend(url);
        input.push(b'\n');
    }
    let lab = Lab::new();
    let args = ["dedup", "--url", "--not-url", "drop", "store"];
    assert!(lab.run_on(&args, &input).expect(0) == urls);
}

#[test]
fn a_line_end_in_an_item_is_no_part_of_its_url() {
    let lab = Lab::new();
    let ran = lab.run_on(
        &["dedup", "-0", "--url", "store"],
        b"http://a/b\nc\0http://a/bc\0",
    );
    assert_eq!(ran.expect(0), b"http://a/b\nc\0");
}

#[test]
fn options_of_urls_want_urls() {
    let lab = Lab::new();
    for option in [
        &["--sort-query"][..],
        &["--drop-www"],
        &["--not-url", "pass"],
    ] {
        let refusal = format!(
            "everseen: {}: needs --url, since the store does not say that it compares URLs\n",
            option[0]
        );
        for command in ["dedup", "create"] {
            let ran = lab.run(&[&[command, "store"], option].concat());
            assert_eq!((ran.code, ran.err), (Some(2), refusal.clone()), "{command}");
            assert!(!lab.path("store").exists());
        }
        // A store of the library's own, which has no label.
        everseen::testing::Options::new()
            .create(lab.path("store"))
            .and_then(|store| store.close())
            .expect("a store");
        for command in ["dedup", "add", "check"] {
            let ran = lab.run(&[&[command, "store"], option].concat());
            assert_eq!((ran.code, ran.err), (Some(2), refusal.clone()), "{command}");
        }
        std::fs::remove_file(lab.path("store")).expect("ours");
    }
}

/// Each rule beyond the standard is asked for, kept by the store, and not changed later.
#[test]
fn rules_beyond_the_standard_are_kept_by_the_store() {
    let lab = Lab::new();
    let input = b"http://h.org/A/?utm_source=x&id=1\nhttps://h.org/a?id=1\nhttps://h.org/a;jsessionid=7?id=1\nhttps://h.org/a?id=2\n";
    let run = |line: &str| lab.run_on(&line.split(' ').collect::<Vec<_>>(), input);
    let options = "--drop-query @tracking,sid --drop-session-path --ignore-scheme --drop-trailing-slash --lower-path";
    let first = items(b'\n', input);
    let expected = [first[0], b"\n", first[3], b"\n"].concat();
    assert_eq!(
        run(&format!("dedup --url {options} seen")).expect(0),
        expected
    );
    assert_eq!(run(&format!("dedup seen {options}")).expect(0), b"");
    assert_eq!(run("dedup seen").expect(0), b"");
    assert_eq!(run("check seen --lower-path").expect(0), input);
    assert_eq!(
        run("dedup --url --keep-query none plain").expect(0).len(),
        input.len() - first[3].len() - 1
    );
    let kept = format!(
        "as URLs (--url {})",
        options.replace("@tracking,sid", "'@tracking,sid'")
    );
    let text = String::from_utf8(run("info seen").expect(0)).expect("text");
    assert!(
        text.contains(&format!("lines       compared {kept}\n")),
        "{text}"
    );
    for (asked, option) in [
        ("seen --drop-query sid", "--drop-query"),
        ("seen --keep-query id", "--keep-query"),
        ("plain --lower-path", "--lower-path"),
        ("plain --drop-session-path", "--drop-session-path"),
    ] {
        run(&format!("dedup {asked}"))
            .expect_error(&format!("which {option} contradicts; leave {option} out"));
    }
    for option in [
        "--drop-query a",
        "--keep-query a",
        "--drop-session-path",
        "--ignore-scheme",
        "--drop-trailing-slash",
        "--lower-path",
    ] {
        let name = option.split(' ').next().unwrap_or_default();
        run(&format!("dedup new {option}")).expect_error(&format!(
            "{name}: needs --url, since the store does not say that it compares URLs"
        ));
        assert_eq!(run(&format!("dedup new --no-url {option}")).code, Some(2));
    }
    for wrong in [
        "--drop-query @other",
        "--drop-query a=b",
        "--drop-query a --keep-query b",
    ] {
        assert_eq!(
            run(&format!("dedup --url new {wrong}")).code,
            Some(2),
            "{wrong}"
        );
    }
    assert!(!lab.path("new").exists());
}
