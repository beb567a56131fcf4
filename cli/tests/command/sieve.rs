//! Lines that wait for each other are answered as any: in order, each once, and none is lost, whatever ends a run.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Lab, distinct_lines, feed, first_occurrences, items, json, repetitive_lines, wait,
};

/// Windows of some thousand lines, whatever is in memory.
const SIEVE: [&str; 4] = ["--sieve", "always", "--window", "64K"];

/// Windows that take all of an input.
const LARGE: [&str; 4] = ["--sieve", "always", "--window", "8M"];

/// Longer than any test takes: the window closes for other reasons.
const LONG: &str = "1h";

fn dedup<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["dedup"], &SIEVE[..], more].concat()
}

fn output_of(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().expect("standard output is a pipe"))
}

fn read_lines(out: &mut impl BufRead, count: usize) -> Vec<u8> {
    let mut lines = Vec::new();
    for _ in 0..count {
        let length = out
            .read_until(b'\n', &mut lines)
            .expect("a pipe can be read");
        assert!(length > 0, "the output ended early");
    }
    lines
}

#[test]
fn windows_print_what_the_twin_prints() {
    let mut random = fastrand::Rng::with_seed(21);
    for (name, kind) in [
        ("default", &[][..]),
        ("layers", &["--kind", "scalable"]),
        ("plain", &["--capacity", "200K", "--no-transactional"]),
        ("fixed", &["--capacity", "200K"]),
    ] {
        let lab = Lab::new();
        lab.run(&[&["create", "store"], kind].concat()).expect(0);
        let input = repetitive_lines(&mut random, 100_000);
        let (first, second) = input.split_at(input.len() / 3);
        let cut = first
            .iter()
            .rposition(|byte| *byte == b'\n')
            .expect("lines")
            + 1;
        let (first, second) = (&input[..cut], [&first[cut..], second].concat());
        let mut printed = lab.run_on(&dedup(&["store"]), first).expect(0);
        // From a file, in which no line is waited for.
        lab.write("second", &second);
        let ran = lab.run(&dedup(&["--stats", "--buffer", "256K", "store", "second"]));
        assert!(
            ran.err.contains(" sweeps for up to 5,041 lines each"),
            "{}",
            ran.err
        );
        printed.extend(ran.expect(0));
        assert!(printed == first_occurrences(b'\n', &input), "{name}");

        // And the lines are there, for a check in windows too.
        let check = [&["check"], &SIEVE[..], &["-v", "store", "second"]].concat();
        assert!(lab.run(&check).expect(1).is_empty(), "{name}");
        let check = [&["check"], &SIEVE[..], &["store", "second"]].concat();
        assert!(lab.run(&check).expect(0) == second, "{name}");
    }
}

#[test]
fn lines_are_added_in_windows() {
    let lab = Lab::new();
    lab.write("input", &distinct_lines(100_000));
    lab.run(&["create", "store"]).expect(0);
    let add = [&["add", "--stats"], &SIEVE[..], &["store", "input"]].concat();
    let ran = lab.run(&add);
    assert!(
        ran.err.contains("100,000 lines, 100,000 new"),
        "{}",
        ran.err
    );
    let ran = lab.run(&add);
    assert!(ran.err.contains("100,000 lines, 0 new"), "{}", ran.err);
}

/// Nothing else comes, and no time limit is near: the pause itself closes the window.
#[test]
fn a_lone_line_is_answered_without_more_input() {
    for sieve in ["always", "auto"] {
        let lab = Lab::new();
        let mut child = lab.start(&["dedup", "--sieve", sieve, "--max-delay", LONG, "store"]);
        let mut out = output_of(&mut child);
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        for line in ["one\n", "two\n", "three\n"] {
            stdin.write_all(b"one\n").expect("it reads");
            stdin.write_all(line.as_bytes()).expect("it reads");
            assert_eq!(read_lines(&mut out, 1), line.as_bytes());
        }
        drop(stdin);
        let (status, err) = wait(child);
        assert_eq!((status.code(), &err[..]), (Some(0), ""));
    }
}

#[test]
fn a_delay_of_none_answers_each_block() {
    let lab = Lab::new();
    let input = distinct_lines(50_000);
    let mut child = lab.start(&dedup(&["--max-delay", "0", "store"]));
    let feeder = feed(&mut child, input.clone());
    let mut out = output_of(&mut child);
    assert!(read_lines(&mut out, 50_000) == input);
    drop(feeder.join());
    assert_eq!(wait(child).0.code(), Some(0));
}

#[test]
fn a_killed_window_loses_no_line_and_with_a_file_none_comes_twice() {
    let input = distinct_lines(100_000);
    for exact in [false, true] {
        for round in 0..4 {
            let lab = Lab::new();
            lab.write("input", &input);
            let args: &[&str] = match exact {
                true => &["--commit-every", "700", "-o", "fresh", "store", "input"],
                false => &["--commit-every", "700", "store", "input"],
            };
            let mut child = lab.start(&dedup(args));
            let mut printed = Vec::new();
            if exact {
                // Killed wherever it is once the first lines are in the file.
                let path = lab.path("fresh");
                let grown = |size: u64| std::fs::metadata(&path).is_ok_and(|it| it.len() > size);
                while !grown(round * 400_000) && child.try_wait().expect("started").is_none() {
                    std::thread::yield_now();
                }
                // It may have been through by then.
                let _ = child.kill();
                assert!(matches!(wait(child).0.code(), None | Some(0)));
                lab.run(&dedup(args)).expect(0);
                let fresh = std::fs::read(&path).expect("the output");
                assert!(fresh == input, "round {round}");
            } else {
                // In the middle of a window, in which some commits have been.
                let mut out = output_of(&mut child);
                let lines = 5_000 + 3_000 * usize::try_from(round).expect("small");
                printed.extend(read_lines(&mut out, lines));
                child.kill().expect("it was started");
                out.read_to_end(&mut printed).expect("a pipe can be read");
                assert_eq!(wait(child).0.code(), None);
                let rest = lab.run(&dedup(args)).expect(0);
                let whole = printed
                    .iter()
                    .rposition(|byte| *byte == b'\n')
                    .expect("lines");
                let cut = printed.split_off(whole + 1);
                assert!(input[printed.len()..].starts_with(&cut), "round {round}");
                // The rerun goes on behind the last commit.
                assert!(input.ends_with(&rest), "round {round}");
                assert!(printed.len() + rest.len() >= input.len(), "round {round}");
            }
        }
    }
}

/// A window is far larger than the number of lines after which to commit. What was printed of it is committed.
#[test]
fn commits_come_in_the_middle_of_a_window() {
    let lab = Lab::new();
    let input = distinct_lines(60_000);
    lab.write("input", &input);
    let args = ["--commit-every", "1000", "store", "input"];
    let mut child = lab.start(&[&["dedup"], &LARGE[..], &args].concat());
    let mut out = output_of(&mut child);
    let mut printed = read_lines(&mut out, 30_000);
    child.kill().expect("it was started");
    out.read_to_end(&mut printed).expect("a pipe can be read");
    assert_eq!(wait(child).0.code(), None);
    let rest = lab.run(&["dedup", "store", "input"]).expect(0);
    // At most what one commit covers, and what one batch may have printed since, is printed twice.
    let twice = (printed.len() + rest.len()).saturating_sub(input.len());
    let line = input.len() / 60_000 + 1;
    assert!(twice <= 1000 * line, "{} lines twice", twice / line);
}

/// The buffer has room for few uncommitted lines, so a window takes several transactions.
#[test]
fn a_window_may_be_larger_than_a_transaction() {
    let lab = Lab::new();
    let input = distinct_lines(60_000);
    lab.write("input", &input);
    let args = [
        "--window", "8M", "--buffer", "128K", "--stats", "store", "input",
    ];
    let ran = lab.run(&[&["dedup", "--sieve", "always"], &args[..]].concat());
    assert!(ran.err.contains(", 1 sweep for "), "{}", ran.err);
    assert!(ran.expect(0) == input);
    assert!(lab.run(&["dedup", "store", "input"]).expect(0).is_empty());
}

#[test]
fn a_signal_ends_a_window_in_good_order() {
    let lab = Lab::new();
    let input = distinct_lines(100_000);
    // A file, so that all of it is one window.
    lab.write("input", &input);
    let args = ["--commit-every", "1000", "--stats", "store", "input"];
    let mut child = lab.start(&[&["dedup"], &LARGE[..], &args].concat());
    let mut out = output_of(&mut child);
    let mut first = read_lines(&mut out, 7_000);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the process is there");
    out.read_to_end(&mut first).expect("a pipe can be read");
    let (status, err) = wait(child);
    assert_eq!(status.code(), Some(143), "{err}");
    // The window is left where it was.
    assert!(first.len() < input.len());
    // All that was printed is remembered, and nothing else is.
    let second = lab.run_on(&["dedup", "store"], &input).expect(0);
    assert!([first, second].concat() == input);
}

/// A line of which no second copy should be in memory does not wait, and does not overtake those that do.
#[test]
fn a_long_line_comes_in_its_turn() {
    let lab = Lab::new();
    let long = [&[b'x'; 6 << 20][..], b"\n"].concat();
    let input = [&distinct_lines(1000)[..], &long, b"last\n"].concat();
    lab.write("input", &input);
    let args = ["--sieve", "always", "store", "input"];
    assert!(lab.run(&[&["dedup"], &args[..]].concat()).expect(0) == input);
}

#[test]
fn lines_before_an_error_of_the_input_are_answered() {
    let lab = Lab::new();
    let lines = distinct_lines(20_000);
    lab.write("input", &[&lines[..], &[b'x'; 2000], b"\n"].concat());
    let args = ["--max-line", "1000", "store", "input"];
    let ran = lab.run(&[&["dedup"], &LARGE[..], &args].concat());
    ran.expect_error("input:20001: longer than 1000 bytes");
    assert!(ran.out == lines);
    assert!(lab.run_on(&["dedup", "store"], &lines).expect(0).is_empty());
}

#[test]
fn a_full_store_names_the_line_of_a_window() {
    let lab = Lab::new();
    lab.run(&["create", "store", "--capacity", "10K", "--transactional"])
        .expect(0);
    let lines = distinct_lines(100_000);
    lab.write("input", &lines);
    let ran = lab.run(&[&["dedup"], &LARGE[..], &["store", "input"]].concat());
    let count = items(b'\n', &ran.out).len();
    ran.expect_error(&format!("input:{}: the store store is full", count + 1));
    assert!(lines.starts_with(&ran.out));
    let keys = &json(&lab.run(&["info", "--json", "store"]).expect(0))["keys"];
    assert_eq!(keys.as_u64(), Some(count as u64));
}

#[test]
fn a_reader_that_ends_early_leaves_the_rest_for_another_run() {
    let lab = Lab::new();
    let input = distinct_lines(200_000);
    lab.write("input", &input);
    let mut child = lab
        .command(&dedup(&["store", "input"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut out = output_of(&mut child);
    let printed = read_lines(&mut out, 1000);
    drop(out);
    let (status, err) = wait(child);
    assert_eq!((status.code(), &err[..]), (Some(0), ""));
    let rest = lab.run(&["dedup", "store", "input"]).expect(0);
    assert!(input.starts_with(&printed) && input.ends_with(&rest));
    assert!(printed.len() + rest.len() >= input.len());
}

/// A line that another run holds is in the middle of a window: no later line overtakes it.
#[test]
fn a_window_waits_for_the_lines_of_another_run() {
    let lab = Lab::new();
    let held = distinct_lines(20_000);
    lab.write("held", &held);
    let mut holder = lab
        .command(&["dedup", "store", "held"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut holder_out = output_of(&mut holder);
    // What it prints it has claimed, and it commits nothing that nobody reads.
    read_lines(&mut holder_out, 1);
    let some = items(b'\n', &held)[100..103].join(&b'\n');
    let input = [b"before\n", &some[..], b"\nafter\n"].concat();
    lab.write("input", &input);
    let mut child = lab.start(&dedup(&["--wait", "100s", "store", "input"]));
    let mut out = output_of(&mut child);
    assert_eq!(read_lines(&mut out, 1), b"before\n");
    holder.kill().expect("it was started");
    holder.wait().expect("it was started");
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).expect("a pipe can be read");
    let (status, err) = wait(child);
    assert_eq!((status.code(), &err[..]), (Some(0), ""));
    assert!(rest == [&some[..], b"\nafter\n"].concat());
}
