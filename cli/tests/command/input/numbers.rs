//! Line numbers, and runs that say nothing.

use crate::support::{Lab, distinct_lines};

#[test]
fn lines_are_numbered_where_they_stand() {
    let lab = Lab::new();
    lab.bare_store("store", &everseen::testing::Options::new());
    lab.run_on(&["dedup", "store"], b"a\nc\nhttp://x.org/\n")
        .expect(0);
    lab.write("one", b"a\nb\nc");
    lab.write("two", b"x\nc\n");
    let check = |args: &[&str]| {
        let out = lab.run(&[&["check", "store"], args].concat()).expect(0);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(check(&["-n", "one"]), "1:a\n3:c\n");
    assert_eq!(check(&["-n", "-v", "one"]), "2:b\n");
    assert_eq!(check(&["-n", "one", "two"]), "one:1:a\none:3:c\ntwo:2:c\n");
    let out = lab.run_on(&["check", "-n", "store"], b"x\na\n").expect(0);
    assert_eq!(out, b"2:a\n");
    let out = lab.run_on(&["check", "-0n", "store"], b"x\0a\0").expect(0);
    assert_eq!(out, b"2:a\0");
    // Dropped lines count, for they are in the file; lines that wait for a sweep keep their places.
    lab.write("urls", b"no url\nhttp://y.org/\nnor this\nHTTP://x.org\n");
    let args = [
        "--url",
        "--not-url",
        "drop",
        "-n",
        "--sieve",
        "always",
        "urls",
    ];
    assert_eq!(check(&args), "4:HTTP://x.org\n");
    // Far into a file, beyond one block.
    let lines = distinct_lines(60_000);
    lab.write("many", &[&lines[..], b"a\n"].concat());
    assert_eq!(check(&["-n", "many"]), "60001:a\n");
    assert_eq!(
        lab.run(&["check", "-n", "-c", "store", "one"]).code,
        Some(2)
    );
}

#[test]
fn a_quiet_run_says_nothing_but_errors() {
    let lab = Lab::new();
    lab.write("urls", b"no url\nhttp://y.org/\n");
    let create = "create counts --kind counting --capacity 10 --url";
    lab.run(&create.split(' ').collect::<Vec<_>>()).expect(0);
    let create = ["create", "plain", "--capacity", "10", "--url"];
    lab.run(&create).expect(0);
    for (line, out) in [
        ("dedup -q --url store urls", &b"no url\nhttp://y.org/\n"[..]),
        ("check -q --url store urls", b""),
        ("add -q --url store urls", b""),
        ("add --quiet counts urls", b""),
        ("remove -q --url counts urls", b""),
        ("exempt -q --url plain urls", b""),
        ("snapshot -q store copy", b""),
        ("snapshot -q store delta --since copy", b""),
    ] {
        let ran = lab.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.err.as_str(), ran.code), ("", Some(0)), "{line}");
        assert_eq!(ran.out, out, "{line}");
    }
    // 90 % of the keys, which a run that is not quiet warns of.
    let nine = distinct_lines(9);
    let ran = lab.run_on(&["add", "plain"], &nine);
    assert!(ran.err.contains("90 % full"), "{}", ran.err);
    let ran = lab.run_on(&["add", "-q", "plain"], &nine);
    assert_eq!(ran.err, "");
    let ran = lab.run_on(&["add", "-q", "plain"], &distinct_lines(12));
    ran.expect_error("the store plain is full");
    for args in [["-q", "--json"], ["-q", "--stats"], ["--stats", "--json"]] {
        let ran = lab.run(&[&["dedup", "store", "urls"], &args[..]].concat());
        assert_eq!(ran.code, Some(2), "{args:?}");
    }
}
