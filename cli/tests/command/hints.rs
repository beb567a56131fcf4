//! Names that other programs have for something of this one, and what is said of them.

use crate::support::{Lab, Ran, json};

fn run(lab: &Lab, line: &str) -> Ran {
    lab.run(&line.split(' ').collect::<Vec<_>>())
}

#[test]
fn what_people_type_is_answered_by_what_they_mean() {
    let lab = Lab::new();
    for (line, meant) in [
        ("merge out a b", "everseen union OUT A B"),
        ("rm seen file", "everseen remove STORE FILE"),
        ("insert seen file", "everseen add STORE FILE"),
        (
            "contains seen x",
            "everseen check STORE FILE, or with one key: everseen check -q STORE --key KEY",
        ),
        ("dedup seen -i", "--ignore-case"),
        (
            "dedup seen -d ,",
            "--seen for repeats, --delimiter for CSV, or --field-separator for fields",
        ),
        ("dedup -f 2 seen", "--key-field N, or --files-from LIST"),
        (
            "dedup seen --field=2",
            "--key-field N, --csv-key COLUMN or --json-key PATH",
        ),
        (
            "dedup seen --since 30d",
            "--forget-after 30d for a new store, or `everseen snapshot --since`",
        ),
    ] {
        let ran = run(&lab, line);
        let lines: Vec<_> = ran.err.lines().collect();
        assert!(lines[0].starts_with("everseen: "), "{}", ran.err);
        assert_eq!(
            lines[1..3],
            ["", &format!("  did you mean: {meant}")],
            "{}",
            ran.err
        );
        assert_eq!((ran.code, ran.out), (Some(2), Vec::new()));
        assert!(!lab.path("seen").exists());
    }
    // Other names are answered as before.
    let ran = run(&lab, "dedup seen --nonsense");
    assert!(!ran.err.contains("did you mean"), "{}", ran.err);
}

#[test]
fn repeats_are_printed_and_new_lines_remembered() {
    let lines = b"a\nb\na\nc\nb\na\n";
    for options in [
        &[][..],
        &["--kind", "counting", "--capacity", "9"],
        &["--kind", "bloom", "--capacity", "9"],
    ] {
        let lab = Lab::new();
        let args = [&["dedup", "--seen", "--stats", "seen"], options].concat();
        let ran = lab.run_on(&args, lines);
        assert!(
            ran.err.starts_with("6 lines, 3 new, 3 seen, "),
            "{}",
            ran.err
        );
        assert_eq!(ran.expect(0), b"a\nb\na\n");
        let ran = lab.run_on(&["dedup", "--seen", "seen"], b"d\nc\nd\n");
        assert_eq!(ran.expect(0), b"c\nd\n");
        assert_eq!(lab.run_on(&["check", "seen"], b"d\ne\n").expect(0), b"d\n");
        assert_eq!(run(&lab, "dedup --seen seen --key d").expect(0), b"d\n");
        assert_eq!(run(&lab, "dedup --seen seen --key f").expect(1), b"");
        assert_eq!(run(&lab, "dedup --seen seen --key f").expect(0), b"f\n");
        let both = run(&lab, "dedup --seen -o out seen");
        assert!(both.err.contains("cannot be used with"), "{}", both.err);
    }
}

#[test]
fn lines_are_counted_with_a_store_and_without() {
    let lines = b"http://a/\nHTTP://A\nb\nb\n";
    let lab = Lab::new();
    lab.write("lines", lines);
    assert_eq!(run(&lab, "dedup --count seen lines").expect(0), b"3\n");
    assert_eq!(run(&lab, "dedup --count seen lines").expect(0), b"0\n");
    assert_eq!(run(&lab, "dedup -c --seen seen lines").expect(0), b"4\n");

    assert_eq!(run(&lab, "count lines").expect(0), b"3\n");
    assert_eq!(lab.run_on(&["count"], lines).expect(0), b"3\n");
    assert_eq!(run(&lab, "count -q --url lines lines").expect(0), b"2\n");
    assert_eq!(lab.run_on(&["count"], b"").expect(0), b"0\n");
    lab.write("csv", b"k,v\n1,a\n2,a\n");
    assert_eq!(run(&lab, "count --csv-key v csv csv").expect(0), b"1\n");
    let ran = run(&lab, "count --json lines");
    let summary = json(ran.err.as_bytes());
    assert_eq!(
        (&summary["command"], &summary["new"]),
        (&"count".into(), &3.into())
    );
    assert_eq!(ran.expect(0), b"3\n");
    run(&lab, "count none").expect_error("none: no such file");
    run(&lab, "count --tsv lines").expect_error("--tsv: needs --csv-key");
    // Nothing stays behind.
    std::fs::create_dir(lab.path("temporary")).expect("ours");
    let mut command = lab.command(&["count", "lines"]);
    let output = command.env("TMPDIR", lab.path("temporary")).output();
    assert_eq!(output.expect("it runs").stdout, b"3\n");
    assert_eq!(lab.path("temporary").read_dir().expect("ours").count(), 0);
    let mut command = lab.command(&["count", "lines"]);
    let output = command
        .env("TMPDIR", lab.path("missing"))
        .output()
        .expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        err.starts_with("everseen: could not create a temporary folder: "),
        "{err}"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_topic_without_help_is_answered_by_help() {
    let lab = Lab::new();
    for topic in ["buffer", "keys", "urls", "wait", "windows"] {
        let ran = lab.run(&[topic]);
        assert_eq!(ran.code, Some(2));
        let meant = format!("did you mean: everseen help {topic}\n");
        assert!(ran.err.contains(&meant), "{}", ran.err);
    }
}
