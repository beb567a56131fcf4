//! `dedup` with stores that are not transactional: nothing is remembered before it is printed there either.
#![cfg(unix)]

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};

use crate::support::{
    Lab, distinct_lines, feed, first_occurrences, items, json, repetitive_lines, wait,
};

/// One of each kind.
const CREATE: [&str; 4] = [
    "create store --no-transactional --capacity 400k --fpr 1e-9",
    "create store --no-transactional --fpr 1e-9 --kind scalable",
    "create store --no-transactional --fpr 1e-9 --kind fingerprint",
    "create store --capacity 400k --fpr 1e-9 --kind counting",
];

fn lab(create: &str) -> Lab {
    let lab = Lab::new();
    let args: Vec<&str> = create.split(' ').collect();
    lab.run(&args).expect(0);
    lab
}

#[test]
fn they_print_what_transactional_ones_print() {
    let mut random = fastrand::Rng::with_seed(21);
    let few = repetitive_lines(&mut random, 20_000);
    // More than are held at once.
    let many = [&few[..], &distinct_lines(300_000)].concat();
    for create in CREATE {
        for (options, input) in [
            (&["--buffer", "1M"][..], &many),
            (&["--commit-every", "7000"], &few),
        ] {
            let expected = first_occurrences(b'\n', input);
            let lab = lab(create);
            let args = [&["dedup"], options, &["store"]].concat();
            assert!(lab.run_on(&args, input).expect(0) == expected, "{create}");
            assert_eq!(lab.run_on(&args, input).expect(0), b"", "{create}");
            lab.run(&["verify", "store"]).expect(0);
        }
    }
}

#[test]
fn a_kill_loses_no_line() {
    let mut random = fastrand::Rng::with_seed(22);
    let input = repetitive_lines(&mut random, 60_000);
    let expected = first_occurrences(b'\n', &input);
    let all: HashSet<&[u8]> = items(b'\n', &expected).into_iter().collect();
    for round in 0..4 * CREATE.len() {
        let lab = lab(CREATE[round % CREATE.len()]);
        let every = ["2000", "1M", "20k", "1M"][round / CREATE.len()];
        let mut child = lab.start(&["dedup", "--commit-every", every, "store"]);
        let feeder = feed(&mut child, input.clone());
        let mut out = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        // Then the pipe is full, and what it has judged waits to be printed.
        let mut printed = Vec::new();
        for _ in 0..random.usize(1..10_000) {
            let length = out.read_until(b'\n', &mut printed).expect("a pipe");
            assert!(length > 0, "the output ended early");
        }
        child.kill().expect("it was started");
        out.read_to_end(&mut printed).expect("a pipe can be read");
        wait(child);
        drop(feeder.join());

        let second = lab.run_on(&["dedup", "store"], &input).expect(0);
        let whole = printed.iter().rposition(|byte| *byte == b'\n');
        let first = items(b'\n', &printed[..whole.map_or(0, |end| end + 1)]);
        let both: HashSet<&[u8]> = first.into_iter().chain(items(b'\n', &second)).collect();
        let lost = all.difference(&both).count();
        assert_eq!(lost, 0, "round {round}: lines lost of {}", all.len());
        assert_eq!(lab.run_on(&["dedup", "store"], &input).expect(0), b"");
    }
}

#[test]
fn what_could_not_be_printed_is_not_remembered() {
    let input = distinct_lines(40_000);
    for create in CREATE {
        let lab = lab(create);
        lab.write("input", &input);
        let full = OpenOptions::new().write(true).open("/dev/full");
        let mut command = lab.command(&["dedup", "store", "input"]);
        let ran = command.stdout(full.expect("Linux has it")).output();
        let ran = ran.expect("the binary runs");
        assert_eq!(ran.status.code(), Some(2));
        assert!(ran.stderr.starts_with(b"everseen: standard output: "));

        let mut child = lab.start(&["dedup", "store", "input"]);
        drop(child.stdout.take());
        let (status, err) = wait(child);
        assert_eq!((status.code(), &err[..]), (Some(0), ""));
        assert!(lab.run(&["dedup", "store", "input"]).expect(0) == input);
    }
}

/// Two would print the same lines: neither sees what the other holds.
#[test]
fn one_run_at_a_time_and_others_are_told_of_transactional_stores() {
    for create in CREATE {
        let lab = lab(create);
        let mut child = lab.start(&["dedup", "store"]);
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        stdin.write_all(b"one\n").expect("it reads");
        let mut out = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        lab.write("input", b"one\ntwo\n");
        lab.run(&["dedup", "store", "input"])
            .expect_error("only a transactional store takes several at once");
        // Whatever else may go on.
        lab.run_on(&["add", "store"], b"three\n").expect(0);
        assert_eq!(
            lab.run_on(&["check", "store"], b"three\n").expect(0),
            b"three\n"
        );
        drop(stdin);
        let (status, err) = wait(child);
        assert!(status.success(), "{err}");
        assert_eq!(lab.run(&["dedup", "store", "input"]).expect(0), b"two\n");
    }
}

#[test]
fn a_line_counts_once_in_a_counting_store() {
    let lab = lab(CREATE[3]);
    lab.run_on(&["dedup", "store"], b"a\nb\na\n").expect(0);
    lab.run_on(&["dedup", "store"], b"b\na\n").expect(0);
    lab.run_on(&["remove", "store"], b"a\n").expect(0);
    let again = lab.run_on(&["dedup", "store"], b"a\nb\n").expect(0);
    assert_eq!(again, b"a\n");
}

#[test]
fn a_full_store_has_what_was_printed() {
    for kind in ["bloom", "counting"] {
        let lab = lab(&format!(
            "create store --no-transactional --capacity 1000 --kind {kind}"
        ));
        let input = distinct_lines(2_000);
        let ran = lab.run_on(&["dedup", "store"], &input);
        ran.expect_error("1,000 keys");
        assert_eq!(items(b'\n', &ran.out).len(), 1_000, "{kind}");
        assert!(lab.run_on(&["check", "store"], &ran.out).expect(0) == ran.out);
    }
}

/// What the store wrongly takes for seen is still counted, though it is looked for first.
#[test]
fn lost_lines_are_still_measured() {
    let lab = lab(&format!(
        "create store --no-transactional --capacity 1M --fpr 0.5 --seed {}",
        "5e".repeat(32)
    ));
    let input = distinct_lines(1_000_000);
    let half = input.len() / 2;
    // What is in the pages is taken for other lines, what is in the buffer is not.
    lab.run_on(&["dedup", "store"], &input[..half]).expect(0);
    let printed = lab.run_on(&["dedup", "store"], &input[half..]).expect(0);
    let lost = items(b'\n', &input[half..]).len() - items(b'\n', &printed).len();
    assert!(lost > 10_000, "{lost}");
    let info = json(&lab.run(&["info", "--json", "store"]).expect(0));
    let counted = info["measured"]["false_positives"].as_u64();
    assert!(
        counted.is_some_and(|counted| counted > 0),
        "{lost} lost, {}",
        info["measured"]
    );
}
