//! Keys of the command line, and lists of files.

use crate::support::{Lab, Ran, json};

fn run(lab: &Lab, line: &str) -> Ran {
    lab.run(&line.split(' ').collect::<Vec<_>>())
}

#[test]
fn a_key_is_asked_for_and_the_status_answers() {
    let lab = Lab::new();
    lab.write("urls", b"http://a/\n");
    run(&lab, "dedup -q seen urls").expect(0);
    assert_eq!(
        run(&lab, "check seen --key http://a/").expect(0),
        b"http://a/\n"
    );
    assert_eq!(run(&lab, "check -q seen --key http://b/").expect(1), b"");
    assert_eq!(
        run(&lab, "check -v seen --key http://b/ --key http://a/").expect(0),
        b"http://b/\n"
    );
    // New, and then seen.
    assert_eq!(
        run(&lab, "dedup seen --key http://b/").expect(0),
        b"http://b/\n"
    );
    assert_eq!(run(&lab, "dedup seen --key http://b/").expect(1), b"");
    assert_eq!(
        run(&lab, "dedup seen --key http://b/ --key c --key c").expect(0),
        b"c\n"
    );
    assert_eq!(run(&lab, "dedup new --key x").expect(0), b"x\n");
    assert_eq!(run(&lab, "dedup new urls").expect(0), b"http://a/\n");
    // Only where a question was asked.
    assert_eq!(run(&lab, "dedup new urls").expect(0), b"");
    let added = run(&lab, "add --json seen --key d");
    assert_eq!(json(added.err.as_bytes())["new"], 1);
    let removed = run(&lab, "remove --json seen --key d");
    assert_eq!(json(removed.err.as_bytes())["removed"], 1);
    let exempted = run(&lab, "exempt --json seen --key d");
    assert_eq!(json(exempted.err.as_bytes())["lines"], 1);
    assert_eq!(run(&lab, "dedup -n none --key").code, Some(2));
}

#[test]
fn a_key_of_the_command_line_is_the_key_and_no_record() {
    let lab = Lab::new();
    lab.write("records", b"{\"url\":\"http://a/\"}\n");
    run(&lab, "dedup -q --json-key url --url seen records").expect(0);
    assert_eq!(
        run(&lab, "check seen --key HTTP://A").expect(0),
        b"HTTP://A\n"
    );
    assert_eq!(
        run(&lab, "dedup seen --key http://b").expect(0),
        b"http://b\n"
    );
    lab.write("more", b"{\"url\":\"http://b\"}\n{\"url\":\"http://c\"}\n");
    assert_eq!(
        run(&lab, "dedup seen more").expect(0),
        b"{\"url\":\"http://c\"}\n"
    );
    // A store is created as the options say, whatever makes it.
    run(&lab, "dedup --csv-key url rows --key x").expect(0);
    lab.write("csv", b"url\nx\ny\n");
    assert_eq!(run(&lab, "dedup rows csv").expect(0), b"url\ny\n");
}

#[test]
fn keys_of_any_bytes_come_as_they_are() {
    let lab = Lab::new();
    let odd = ["", " ", "-", "\u{1f}\u{8b}", "a\tb"];
    for key in odd {
        let ran = lab.run(&["dedup", "seen", "--key", key]);
        assert_eq!(ran.expect(0), format!("{key}\n").as_bytes());
        lab.run(&["check", "-q", "seen", "--key", key]).expect(0);
    }
    lab.run(&["check", "seen", "--key", "a\nb"]).expect_error(
        "--key: has a line end in it, so it is no line; add -0, which separates items by NUL bytes",
    );
    let ran = lab.run(&["dedup", "-0", "seen", "--key", "a\nb"]);
    assert_eq!(ran.expect(0), b"a\nb\0");
    let long = "x".repeat(100_000);
    let ran = lab.run(&["dedup", "seen", "--key", &long, "--key", &long]);
    assert_eq!(ran.expect(0), format!("{long}\n").as_bytes());
    let ran = run(&lab, "check seen file --key a");
    assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
}

#[test]
fn a_list_names_the_files() {
    let lab = Lab::new();
    for name in ["a", "b c", "d"] {
        lab.write(name, format!("in {name}\n").as_bytes());
    }
    lab.write("list", b"b c\n\nd\n");
    let ran = run(&lab, "dedup seen a --files-from list");
    assert_eq!(ran.expect(0), b"in a\nin b c\nin d\n");
    let ran = lab.run_on(&["check", "seen", "--files-from", "-"], b"d\0a");
    assert_eq!(ran.expect(0), b"in d\nin a\n");
    let ran = run(&lab, "add --json other --files-from list");
    assert_eq!(ran.code, Some(2), "no store");
    run(&lab, "create other").expect(0);
    let ran = run(&lab, "add --json other --files-from list");
    assert_eq!(json(ran.err.as_bytes())["new"], 2);
    let numbered = run(&lab, "check -n other --files-from list");
    assert_eq!(numbered.expect(0), b"b c:1:in b c\nd:1:in d\n");

    lab.write("wrong", b"a\nnone\n");
    run(&lab, "dedup new --files-from wrong").expect_error("none: no such file");
    lab.write("empty", b"\n\n");
    run(&lab, "dedup new --files-from empty")
        .expect_error("empty: names no file to read; name some in it, or leave --files-from out");
    run(&lab, "dedup new --files-from none").expect_error("none: no such file");
    run(&lab, "dedup new - --files-from -").expect_error(
        "--files-from -: standard input is the list, so it can't be read as well; leave out one -",
    );
    lab.run_on(&["dedup", "new", "--files-from", "-"], b"a\n-\n")
        .expect_error("standard input is the list");
    lab.write("own", b"seen\n");
    run(&lab, "dedup seen --files-from own").expect_error("seen: is the store itself");
    assert!(!lab.path("new").exists());
}
