//! `--max-line`: no line takes more memory than it may.

use std::fs::File;

use crate::support::{Lab, json};

/// Lines that are too long by default, and the store they are for.
fn lab_with_a_long_line() -> Lab {
    let lab = Lab::new();
    let create = ["create", "store", "--kind", "counting", "--capacity", "1k"];
    lab.run(&create).expect(0);
    let long = File::create(lab.path("long")).expect("a new file");
    // A hole, which takes no room on the disk: one line of zeros.
    long.set_len((64 << 20) + 1).expect("a file may have holes");
    lab
}

#[test]
fn a_line_that_is_too_long_is_named_by_every_command_that_reads_lines() {
    let lab = lab_with_a_long_line();
    lab.write("short", b"one\ntwo\n");
    for command in ["dedup", "add", "check", "remove", "exempt"] {
        let ran = lab.run(&[command, "store", "short", "long"]);
        assert_eq!(ran.code, Some(2), "{command}: {}", ran.err);
        ran.expect_error(
            "everseen: long:1: longer than 64.0 MiB; raise --max-line, skip such lines (--skip-long), or separate items by NUL bytes (-0)",
        );
    }
}

#[test]
fn the_longest_line_is_taken() {
    let lab = lab_with_a_long_line();
    lab.run(&["add", "--max-line", "67108865", "store", "long"])
        .expect(0);
    lab.run(&["add", "--max-line", "67108864", "store", "long"])
        .expect_error("long:1: longer than 64.0 MiB");
}

#[test]
fn what_came_before_a_long_line_is_done() {
    let lab = Lab::new();
    lab.write("input", b"one\nfour\nfive\nseventh\nfour\nsix\n");
    let ran = lab.run(&["dedup", "--max-line", "4", "store", "input"]);
    ran.expect_error("input:4: longer than 4 bytes");
    assert_eq!(ran.out, b"one\nfour\nfive\n");
    let ran = lab.run(&["dedup", "--max-line", "7", "store", "input"]);
    assert_eq!(ran.expect(0), b"seventh\nsix\n");
    // The last one need not be ended, and is counted in its own file.
    lab.write("more", b"a\nbcd");
    let ran = lab.run(&["dedup", "--max-line", "2", "store", "more"]);
    ran.expect_error("more:2: longer than 2 bytes");
    assert_eq!(ran.out, b"a\n");
}

#[test]
fn items_that_are_separated_another_way() {
    let lab = Lab::new();
    let ran = lab.run_on(&["dedup", "--max-line", "3", "store"], b"a\0b\0c\0d");
    ran.expect_error("standard input:1: longer than 3 bytes");
    let ran = lab.run_on(&["dedup", "-0", "--max-line", "3", "store"], b"a\0b\0c\0d");
    assert_eq!(ran.expect(0), b"a\0b\0c\0d\0");
}

#[test]
fn no_line_at_all_is_no_size() {
    let lab = Lab::new();
    let ran = lab.run(&["dedup", "--max-line", "0", "store"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("at least one byte"), "{}", ran.err);
}

/// A file with lines of one to nine bytes, of which some are longer than five.
const MIXED: &[u8] = b"one\nlonger\nfour\nlongest\nlongest\nfive\nsix\ntoo long";

#[test]
fn lines_that_are_too_long_can_be_skipped_and_are_counted_and_named() {
    let lab = Lab::new();
    lab.write("input", MIXED);
    lab.write("short", b"two\n");
    let long = ["--max-line", "5", "--skip-long", "short", "input"];
    let run = |args: &[&str]| lab.run(&[args, &long].concat());
    let told = "everseen: input:2: longer than 5 bytes; skipped\n\
                everseen: 3 more lines longer than 5 bytes; skipped\n";

    let ran = run(&["dedup", "--stats", "store"]);
    assert!(ran.err.starts_with(told), "{}", ran.err);
    let summary = "9 lines, 5 new, 0 seen, 4 too long and skipped, ";
    assert!(ran.err.contains(summary), "{}", ran.err);
    assert_eq!(ran.expect(0), b"two\none\nfour\nfive\nsix\n");

    let ran = run(&["add", "--stats", "store"]);
    assert_eq!(
        ran.err,
        format!("{told}9 lines, 0 new, 4 too long and skipped\n")
    );
    let ran = run(&["check", "store", "-n"]);
    assert_eq!(ran.err, told);
    let places = "short:1:two\ninput:1:one\ninput:3:four\ninput:6:five\ninput:7:six\n";
    assert_eq!(ran.expect(0), places.as_bytes());
    assert_eq!(run(&["check", "store", "-v"]).expect(1), b"");
    let ran = run(&["exempt", "store"]);
    let rest = ", 4 too long and skipped\n";
    assert!(
        ran.err.starts_with(&format!("{told}9 lines, ")),
        "{}",
        ran.err
    );
    assert!(ran.err.ends_with(rest), "{}", ran.err);
    lab.run(&["add", "store", "short"]).expect(0);
    let ran = run(&["remove", "store"]);
    assert_eq!(ran.err, format!("{told}9 lines, 1 removed, 4 absent{rest}"));

    let ran = run(&["dedup", "-q", "other"]);
    assert_eq!(ran.err, "");
    let ran = run(&["dedup", "--json", "other"]);
    let summary = ran.err.lines().last().expect("a summary");
    let summary = json(summary.as_bytes());
    assert_eq!(summary["lines"], 9);
    assert_eq!(summary["seen"], 5);
    assert_eq!(summary["too_long"], 4);
    assert_eq!(summary["first_too_long"], "input:2");
}

#[test]
fn a_long_line_is_skipped_among_urls_and_in_streams_too() {
    let lab = Lab::new();
    let input = b"no url\nhttps://example.org/long\nno url too\nhttp://a.b/\nhttp://a.b/c/..\n";
    let args = [
        "dedup",
        "--url",
        "--not-url",
        "drop",
        "--max-line",
        "15",
        "--skip-long",
    ];
    let ran = lab.run_on(&[&args[..], &["--stats", "store"]].concat(), input);
    for part in [
        "standard input:1: not a URL, dropped",
        "standard input:3: not a URL, dropped",
        "standard input:2: longer than 15 bytes; skipped",
        "5 lines, 1 new, 1 seen, 2 not URLs and dropped, 1 too long and skipped",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(ran.expect(0), b"http://a.b/\n");
    // A hole of 64 MiB takes no room in memory.
    let lab = lab_with_a_long_line();
    lab.write("short", b"one\ntwo\n");
    let args = ["add", "--stats", "--max-line", "1K", "--skip-long", "store"];
    let ran = lab.run(&[&args[..], &["short", "long", "short"]].concat());
    assert!(
        ran.err
            .ends_with("5 lines, 2 new, 1 too long and skipped\n"),
        "{}",
        ran.err
    );
    ran.expect(0);
}
