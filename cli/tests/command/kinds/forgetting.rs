//! Stores that forget: `--forget-after`, `--forget-steps` and `--at`.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Lab, assert_fields, distinct_lines, feed, json, wait};

#[test]
fn lines_are_printed_again_once_they_are_due() {
    let lab = Lab::new();
    let dedup = |at: &str, lines: &[u8]| {
        let args = [
            "dedup",
            "-q",
            "--forget-after",
            "30d",
            "--at",
            at,
            "due.ever",
        ];
        lab.run_on(&args, lines).expect(0)
    };
    assert_eq!(dedup("2026-01-01", b"a\nb\na\n"), b"a\nb\n");
    assert_eq!(dedup("2026-01-20T12:00:00Z", b"a\nc\n"), b"c\n");
    assert_eq!(dedup("2026-01-30T23:59:59Z", b"b\n"), b"");
    // A window and a step of two days.
    assert_eq!(dedup("2026-02-02", b"a\nb\nc\n"), b"a\nb\n");
    // Time never runs backwards.
    assert_eq!(dedup("2026-01-01", b"a\nd\n"), b"d\n");
    assert_eq!(dedup("1772323200.5", b"c\nd\na\n"), b"c\n");
}

#[test]
fn add_takes_the_time_of_its_lines() {
    let lab = Lab::new();
    let create = ["create", "s", "--forget-after", "1h", "--forget-steps", "4"];
    let created = lab.run(&create);
    assert!(created.err.contains("forgets after 1h"), "{}", created.err);
    created.expect(0);
    lab.run_on(&["add", "--at", "7200", "s"], b"a\n").expect(0);
    let dedup = |at: &str| {
        lab.run_on(&["dedup", "-q", "--at", at, "s"], b"a\n")
            .expect(0)
    };
    assert_eq!(dedup("10799"), b"");
    assert_eq!(dedup("11700"), b"a\n");
}

#[test]
fn info_says_how_a_store_forgets() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "-q", "--forget-after", "30d", "s"], b"a\nb\n")
        .expect(0);
    let text = String::from_utf8(lab.run(&["info", "s"]).expect(0)).expect("text");
    assert!(
        text.contains("forgets     keys 30d after they were added, or up to 2d later\n"),
        "{text}"
    );
    assert!(text.contains("keys        2 at most, room for"), "{text}");
    let info = json(&lab.run(&["info", "--json", "s"]).expect(0));
    assert_fields(
        &info["forgetting"],
        &[
            "after",
            "by",
            "steps",
            "now",
            "latest",
            "earliest",
            "due",
            "due_is_estimate",
        ],
    );
    assert_eq!(info["forgetting"]["after"], 2_592_000.0);
    assert_eq!(info["forgetting"]["steps"], 15);
    lab.run_on(&["dedup", "-q", "keeps"], b"a\n").expect(0);
    let info = json(&lab.run(&["info", "--json", "keeps"]).expect(0));
    assert!(info["forgetting"].is_null());
}

#[test]
fn a_store_that_exists_is_not_another_one() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "-q", "--forget-after", "30d", "s"], b"a\n")
        .expect(0);
    lab.run_on(&["dedup", "-q", "keeps"], b"a\n").expect(0);
    let dedup = |store, window| lab.run(&["dedup", "--forget-after", window, store]);
    dedup("s", "30d").expect(0);
    dedup("s", "1w")
        .expect_error("is one that forgets after 30d, in 15 steps; leave out --forget-after 1w");
    dedup("keeps", "30d").expect_error("is one that keeps keys for ever; leave out");
    let args = [
        "dedup",
        "--forget-after",
        "30d",
        "--forget-steps",
        "31",
        "s",
    ];
    lab.run(&args)
        .expect_error("is one that forgets after 30d, in 15 steps; leave out --forget-steps 31");
    lab.run(&["add", "--at", "2026-01-01", "keeps"])
        .expect_error("keeps keys for ever; only stores that forget can");
    let bloom = ["create", "b", "--kind", "bloom", "--capacity", "1K"];
    lab.run(&[&bloom[..], &["--forget-after", "1d"]].concat())
        .expect_error("only kind fingerprint forgets");
    let union = lab.run(&["union", "u", "s", "s"]);
    union.expect(0);
}

/// Commands that accept no line need no new time, and go by that of the lines.
#[test]
fn a_store_of_the_past_stays_what_it_is() {
    let lab = Lab::new();
    let dedup = |at: &str, lines: &[u8]| {
        let args = ["dedup", "-q", "--forget-after", "30d", "--at", at, "s"];
        lab.run_on(&args, lines).expect(0)
    };
    assert_eq!(dedup("2024-01-01", b"a\nb\nc\n"), b"a\nb\nc\n");
    assert_eq!(dedup("2024-01-10", b"d\n"), b"d\n");
    lab.run_on(&["remove", "-q", "s"], b"a\n").expect(0);
    lab.run_on(&["exempt", "-q", "s"], b"b\n").expect(0);
    lab.run(&["checkpoint", "s"]).expect(0);
    lab.run(&["checkpoint", "--full", "s"]).expect(0);
    lab.run(&["repair", "s"]).expect(0);
    let check = |at: &str| {
        let args = ["check", "--at", at, "s"];
        lab.run_on(&args, b"a\nb\nc\nd\n")
    };
    assert_eq!(check("2024-01-20").expect(0), b"c\nd\n");
    assert_eq!(check("2024-02-04").expect(0), b"d\n");
    check("2025-01-01").expect(1);
    let info = |at: &str| json(&lab.run(&["info", "--json", "--at", at, "s"]).expect(0));
    assert_eq!(info("1970-01-01")["forgetting"]["now"], 1_704_844_800.0);
    assert_eq!(info("2024-02-04")["forgetting"]["now"], 1_707_004_800.0);
    lab.run(&["checkpoint", "--at", "2024-02-04", "s"])
        .expect(0);
    assert_eq!(info("1970-01-01")["keys"], 1);
    lab.run_on(&["dedup", "-q", "keeps"], b"a\n").expect(0);
    for command in ["remove", "exempt", "checkpoint", "check", "info"] {
        lab.run(&[command, "--at", "2024-01-01", "keeps"])
            .expect_error("keeps keys for ever; only stores that forget can");
    }
}

#[test]
fn a_time_without_a_window_creates_no_store() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "--at", "2024-01-01", "s"], b"a\n")
        .expect_error("a new one keeps its lines for ever without --forget-after");
    assert!(!lab.path("s").exists());
    lab.run(&["create", "s", "--forget-after", "30d"]).expect(0);
    let milliseconds = ["add", "--at", "1795786200000", "s"];
    let told = lab.run(&milliseconds).err;
    assert!(told.contains("seconds, not milliseconds"), "{told}");
}

#[test]
fn a_wrong_time_is_set_back() {
    let lab = Lab::new();
    let dedup = |at: &str, lines: &[u8]| {
        let args = ["dedup", "-q", "--forget-after", "30d", "--at", at, "s"];
        lab.run_on(&args, lines).expect(0)
    };
    assert_eq!(dedup("2099-01-01", b"a\n"), b"a\n");
    lab.run(&["repair", "--set-clock", "2026-01-01", "s"])
        .expect(0);
    assert_eq!(dedup("2026-01-30", b"a\nb\n"), b"b\n");
    assert_eq!(dedup("2026-02-03", b"a\nb\n"), b"a\n");
}

#[test]
fn a_time_that_does_not_fit_the_store_is_told() {
    let lab = Lab::new();
    let add = |at: &str| {
        // Each time has a line of its own, by which it is recorded.
        let lines = format!("a\n{at}\n");
        let added = lab.run_on(&["add", "--at", at, "s"], lines.as_bytes());
        assert_eq!(added.code, Some(0), "{}", added.err);
        added.err
    };
    lab.run(&["create", "s", "--forget-after", "30d"]).expect(0);
    assert_eq!(add("2026-01-01"), "");
    assert_eq!(add("2026-01-20"), "");
    let told = add("2026-01-01");
    assert!(
        told.contains("it is 2026-01-20 00:00:00 UTC in s already"),
        "{told}"
    );
    let told = add("2062-01-01");
    let all = "s forgets all of 3 keys: its latest is of 2026-01-20 00:00:00 UTC, and now it is 2062-01-01";
    assert!(told.contains(all), "{told}");
    let told = lab
        .run_on(&["add", "-q", "--at", "2099-01-01", "s"], b"a\n")
        .err;
    assert_eq!(told, "");
}

/// A run that is killed and repeated loses no line, and forgets none sooner than others.
#[test]
fn a_kill_makes_no_line_older_or_younger() {
    let lab = Lab::new();
    let input = distinct_lines(60_000);
    let options = ["--forget-after", "1h", "--commit-every", "5000", "--at"];
    let dedup = |at| [&["dedup", "-q"], &options[..], &[at, "s"]].concat();
    let mut command = lab.command(&dedup("3600000"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let feeder = feed(&mut child, input[..input.len() / 2].to_vec());
    let mut out = child.stdout.take().expect("a pipe");
    let mut first = vec![0; 600_000];
    std::io::Read::read_exact(&mut out, &mut first).expect("it prints");
    kill_process(Pid::from_child(&child), Signal::KILL).expect("it is there");
    drop(out);
    drop(feeder.join());
    assert!(!wait(child).0.success());

    // Half a window later all comes again. What was printed and committed doesn't.
    let second = lab.run_on(&dedup("3601800"), &input).expect(0);
    assert!(input.ends_with(&second));
    let committed = input.len() - second.len();
    assert!(
        committed > 0 && second.len() > input.len() / 2,
        "{committed}"
    );
    // A window and a step after the first run, what it had committed is due, and nothing else.
    let third = lab.run_on(&dedup("3603840"), &input).expect(0);
    assert!(third == input[..committed], "{} {committed}", third.len());
    let fourth = lab.run_on(&dedup("3605640"), &input).expect(0);
    assert!(fourth == second);
    lab.run(&["verify", "s"]).expect(0);
}

#[test]
fn info_says_what_is_due() {
    let lab = Lab::new();
    for (at, lines) in [("2026-01-01", "a\nb\n"), ("2026-01-15", "c\n")] {
        let args = ["dedup", "-q", "--forget-after", "30d", "--at", at, "s"];
        lab.run_on(&args, lines.as_bytes()).expect(0);
    }
    let text = |at| String::from_utf8_lossy(&lab.run(&["info", "--at", at, "s"]).out).into_owned();
    let both = "due         2 keys by 2026-02-02 00:00:00 UTC\n            1 key by 2026-02-16 00:00:00 UTC\n";
    assert!(text("2026-01-20").contains(both), "{}", text("2026-01-20"));
    let one = "forgotten   2 keys, dropped by and by (checkpoint drops them now)\ndue         1 key by 2026-02-16";
    assert!(text("2026-02-03").contains(one), "{}", text("2026-02-03"));
    let info = json(&lab.run(&["info", "--json", "s"]).out);
    let due = &info["forgetting"]["due"];
    assert_eq!((&due[0]["keys"], &due[1]["keys"]), (&2.into(), &1.into()));
    assert_eq!(info["forgetting"]["due_is_estimate"], false);
    let page = lab.run(&["report", "--at", "2026-02-03", "s"]).out;
    let page = String::from_utf8_lossy(&page).into_owned();
    assert!(page.contains("2 keys are forgotten already"), "{page}");
    assert!(page.contains("days from now"));
}

/// In a store that is transactional, and in one that remembers at once.
#[test]
fn a_line_that_keeps_coming_stays_where_its_last_time_counts() {
    for others in [&[][..], &["--transactional=false"]] {
        let lab = Lab::new();
        let create = [
            "create",
            "s",
            "--forget-after",
            "30d",
            "--forget-by",
            "last",
        ];
        lab.run(&[&create[..], others].concat()).expect(0);
        let text = lab.run(&["info", "s"]).out;
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains("30d after they last came"), "{text}");
        let dedup = |at: &str, lines: &[u8]| {
            lab.run_on(&["dedup", "-q", "--at", at, "s"], lines)
                .expect(0)
        };
        assert_eq!(dedup("2026-01-01", b"a\nb\n"), b"a\nb\n");
        for day in ["2026-01-20", "2026-02-10", "2026-03-01", "2026-03-20"] {
            assert_eq!(dedup(day, b"a\n"), b"", "{day}");
            lab.run_on(&["check", "--at", day, "s"], b"b\n");
        }
        assert_eq!(dedup("2026-03-21", b"a\nb\n"), b"b\n");
        assert_eq!(dedup("2026-04-25", b"a\n"), b"a\n");
        let refused = [
            "dedup",
            "--forget-after",
            "30d",
            "--forget-by",
            "first",
            "s",
        ];
        lab.run(&refused)
            .expect_error("forgets after 30d since a key last came, in 15 steps");
    }
}

/// What it holds is forgotten, so there is room for as much again.
#[test]
fn a_full_store_that_forgets_takes_lines_again() {
    for transactional in ["--transactional=true", "--transactional=false"] {
        let lab = Lab::new();
        let create = ["create", "s", "--forget-after", "30d", "--capacity", "1000"];
        // By default one run in a thousand takes one of the lines for another.
        let exact = ["--kind", "fingerprint", "--fpr", "1e-12", transactional];
        lab.run(&[&create[..], &exact].concat()).expect(0);
        let lines = |first: u64, count: u64| -> Vec<u8> {
            let lines = (first..first + count).map(|line| format!("{line}\n"));
            lines.collect::<String>().into_bytes()
        };
        let dedup = |at: &str, lines: &[u8]| lab.run_on(&["dedup", "-q", "--at", at, "s"], lines);
        assert_eq!(dedup("2026-01-01", &lines(0, 995)).expect(0), lines(0, 995));
        let later = lines(5000, 600);
        assert_eq!(
            dedup("2026-03-01", &later).expect(0),
            later,
            "{transactional}"
        );
        dedup("2026-03-01", &lines(7000, 600)).expect_error("is full");
    }
}
