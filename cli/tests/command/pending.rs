//! Lines that another run has claimed and not committed: whether it commits them or dies, none is lost, none comes
//! twice, and none overtakes another.
#![cfg(unix)]

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Lab, distinct_lines, first_occurrences, items, wait};

/// Long enough for whatever is to come. What never comes fails the test by its exit status.
const LONG: &str = "100s";

/// Lines that `dedup` claims together, and that no pipe takes at once.
const HELD: usize = 10_000;

/// A run that has claimed lines and commits none of them, since nobody reads what it prints.
struct Holder {
    child: Child,
    out: BufReader<ChildStdout>,
    printed: Vec<u8>,
}

impl Holder {
    fn start(lab: &Lab, input: &[u8], args: &[&str]) -> Self {
        let name = format!("input-of-{}", args.join("-"));
        lab.write(&name, input);
        let mut child = lab
            .command(&[&["dedup"], args, &["store", &name]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut out = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        // What it prints it has claimed.
        let printed = read_lines(&mut out, 1);
        Holder {
            child,
            out,
            printed,
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("it was started");
        assert_eq!(wait(self.child).0.code(), None);
    }

    /// Reads all of its output, so that it commits and ends.
    fn finish(mut self) -> Vec<u8> {
        self.out
            .read_to_end(&mut self.printed)
            .expect("a pipe can be read");
        let (status, err) = wait(self.child);
        assert_eq!((status.code(), &err[..]), (Some(0), ""));
        self.printed
    }
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

/// A run whose input is in the hands of the test.
struct Fed {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Fed {
    fn start(lab: &Lab, args: &[&str]) -> Self {
        let mut child = lab.start(args);
        let out = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        Fed { child, out }
    }

    fn write(&mut self, bytes: &[u8]) {
        let stdin = self.child.stdin.as_mut().expect("it is a pipe");
        stdin.write_all(bytes).expect("it reads");
    }

    /// Ends its input; answers its exit status, the rest of its output, and what it said.
    fn finish(mut self) -> (Option<i32>, Vec<u8>, String) {
        drop(self.child.stdin.take());
        let mut rest = Vec::new();
        self.out.read_to_end(&mut rest).expect("a pipe can be read");
        let (status, err) = wait(self.child);
        (status.code(), rest, err)
    }
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("text")
}

/// The lines that a holder holds, and a few of them between two lines of another's own.
fn held_lines() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let held = distinct_lines(HELD);
    let few = items(b'\n', &held)[100..103].join(&b'\n');
    let few = [&few[..], b"\n"].concat();
    let input = [b"before\n", &few[..], b"after\n"].concat();
    (held, few, input)
}

#[test]
fn what_a_killed_run_had_claimed_is_taken_over() {
    let (held, few, input) = held_lines();
    let lab = Lab::new();
    let holder = Holder::start(&lab, &held, &[]);
    let mut run = Fed::start(&lab, &["dedup", "--wait", LONG, "store"]);
    run.write(&input);
    assert_eq!(read_lines(&mut run.out, 1), b"before\n");
    // It has printed that, and commits it before it waits.
    let other = lab.run_on(&["dedup", "--wait", LONG, "store"], b"before\nafter\n");
    assert_eq!((other.code, &other.err[..]), (Some(0), ""));
    assert_eq!(text(&other.out), "after\n");
    holder.kill();
    let (code, rest, err) = run.finish();
    assert_eq!((code, &err[..]), (Some(0), ""));
    assert_eq!(text(&rest), text(&few));
    assert_eq!(lab.run_on(&["dedup", "store"], &input).expect(0), b"");
}

#[test]
fn what_another_run_commits_was_seen() {
    let (held, _, input) = held_lines();
    let lab = Lab::new();
    let holder = Holder::start(&lab, &held, &[]);
    let mut run = Fed::start(&lab, &["dedup", "--wait", LONG, "--stats", "store"]);
    run.write(&input);
    assert_eq!(read_lines(&mut run.out, 1), b"before\n");
    assert!(holder.finish() == held);
    let (code, rest, err) = run.finish();
    assert_eq!((code, &rest[..]), (Some(0), &b"after\n"[..]));
    assert!(err.starts_with("5 lines, 2 new, 3 seen, "), "{err}");
}

#[test]
fn info_reports_what_buffers_take_while_a_run_is_on() {
    let lab = Lab::new();
    let mut run = Fed::start(&lab, &["dedup", "--buffer", "1M", "store"]);
    run.write(b"line\n");
    assert_eq!(read_lines(&mut run.out, 1), b"line\n");
    let json = || crate::support::json(&lab.run(&["info", "--json", "store"]).expect(0));
    let taken = json()["buffer_bytes"].as_u64();
    assert!(
        taken.is_some_and(|taken| (100_000..1 << 20).contains(&taken)),
        "{taken:?}"
    );
    let report = lab.run(&["info", "store"]).expect(0);
    assert!(text(&report).contains("KiB of memory"), "{}", text(&report));
    let (code, _, err) = run.finish();
    assert_eq!((code, &err[..]), (Some(0), ""));
    assert!(json()["buffer_bytes"].is_null());
}

/// Each has claimed what the other comes to later, and neither has committed any of it.
#[test]
fn two_that_wait_for_each_other_both_go_on() {
    let all = distinct_lines(400_000);
    let lines = items(b'\n', &all);
    let joined = |lines: &[&[u8]]| [&lines.join(&b'\n')[..], b"\n"].concat();
    let (one, two) = lines.split_at(200_000);
    // Neither comes to the end of its own before somebody reads: a pipe does not hold them.
    assert!(joined(one).len().min(joined(two).len()) > 3 << 19);
    let lab = Lab::new();
    let runs = [(one, two, "1M"), (two, one, "2M")].map(|(first, second, every)| {
        let input = joined(&[first, second].concat());
        Holder::start(&lab, &input, &["--wait", LONG, "--commit-every", every])
    });
    let printed = runs.map(|run| thread::spawn(|| run.finish()));
    let printed = printed.map(|thread| thread.join().expect("it ends well"));
    let [one, two] = printed.each_ref().map(|printed| items(b'\n', printed));
    assert_eq!(one.len() + two.len(), lines.len());
    let both: HashSet<&[u8]> = one.into_iter().chain(two).collect();
    assert!(both == lines.into_iter().collect());
}

#[test]
fn the_order_is_kept_whether_they_are_taken_over_or_not() {
    let mut random = fastrand::Rng::with_seed(8);
    for kills in [true, false] {
        let lab = Lab::new();
        let held = distinct_lines(HELD);
        let lines = items(b'\n', &held);
        let holder = Holder::start(&lab, &held, &[]);
        let mut input = b"first\n".to_vec();
        for number in 0..60_000 {
            if random.u8(..4) == 0 {
                input.extend_from_slice(lines[random.usize(..lines.len())]);
            } else {
                write!(input, "own {}", number - random.i32(..10)).expect("memory");
            }
            input.push(b'\n');
        }
        let mut run = Fed::start(&lab, &["dedup", "--wait", LONG, "store"]);
        let mut printed = thread::scope(|scope| {
            let (stdin, out) = (run.child.stdin.take(), &mut run.out);
            let feeder = scope.spawn(|| stdin.expect("it is a pipe").write_all(&input));
            let printed = read_lines(out, 1);
            match kills {
                true => holder.kill(),
                false => assert!(holder.finish() == held),
            }
            let mut rest = Vec::new();
            out.read_to_end(&mut rest).expect("a pipe can be read");
            feeder.join().expect("it ends").expect("it reads");
            [printed, rest].concat()
        });
        let (code, rest, err) = run.finish();
        assert_eq!((code, &err[..]), (Some(0), ""));
        printed.extend(rest);
        let all = first_occurrences(b'\n', &input);
        let held: HashSet<&[u8]> = lines.into_iter().collect();
        let mut expected = items(b'\n', &all);
        expected.retain(|line| kills || !held.contains(line));
        assert!(items(b'\n', &printed) == expected, "kills: {kills}");
    }
}

#[test]
fn what_is_still_pending_is_told_and_has_a_status_of_its_own() {
    let (held, few, input) = held_lines();
    for (time, waited) in [("0", ""), ("10ms", "everseen: waited 10ms for a line ")] {
        let lab = Lab::new();
        let holder = Holder::start(&lab, &held, &[]);
        let ran = lab.run_on(&["dedup", "--wait", time, "--stats", "store"], &input);
        assert_eq!(ran.code, Some(3), "{time}: {}", ran.err);
        assert_eq!(text(&ran.out), "before\nafter\n");
        let told: Vec<&str> = ran.err.lines().collect();
        let (stats, pending) = match told[..] {
            [stats, pending] if waited.is_empty() => (stats, pending),
            [first, stats, pending] if first.starts_with(waited) => (stats, pending),
            _ => panic!("{}", ran.err),
        };
        let expected = "5 lines, 2 new, 0 seen, 3 pending in another process, ";
        assert!(stats.starts_with(expected), "{stats}");
        let expected = "everseen: 3 lines pending: claimed by another process, ";
        assert!(pending.starts_with(expected), "{pending}");

        let ran = lab.run_on(&["add", "--wait", time, "store"], &input);
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        assert!(
            ran.err
                .contains("5 lines, 0 new, 3 pending in another process\n"),
            "{}",
            ran.err
        );
        assert!(
            ran.err.contains("everseen: 3 lines pending: "),
            "{}",
            ran.err
        );
        holder.kill();
        assert_eq!(lab.run_on(&["dedup", "store"], &input).expect(0), few);
    }
}

#[test]
fn what_is_committed_before_the_end_is_not_pending_at_the_end() {
    let (held, _, input) = held_lines();
    let lab = Lab::new();
    let holder = Holder::start(&lab, &held, &[]);
    let mut run = Fed::start(&lab, &["dedup", "--wait", "0", "--stats", "store"]);
    run.write(&input);
    assert_eq!(read_lines(&mut run.out, 2), b"before\nafter\n");
    holder.finish();
    let (code, rest, err) = run.finish();
    assert_eq!((code, &rest[..]), (Some(0), &b""[..]));
    assert!(err.starts_with("5 lines, 2 new, 3 seen, "), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

/// What is added late overtakes nothing; what is printed late would.
#[test]
fn what_was_passed_by_is_added_at_the_end_and_never_printed_late() {
    let (held, few, input) = held_lines();
    for (command, code) in [("add", 0), ("dedup", 3)] {
        let lab = Lab::new();
        let holder = Holder::start(&lab, &held, &[]);
        let mut run = Fed::start(&lab, &[command, "--wait", "1ms", "store"]);
        run.write(&input);
        // It has given up waiting once it says so, or prints what comes after.
        let stderr = run.child.stderr.take().expect("it is a pipe");
        let told = read_lines(&mut BufReader::new(stderr), 1);
        assert!(told.starts_with(b"everseen: waited 1ms "));
        if command == "dedup" {
            assert_eq!(read_lines(&mut run.out, 2), b"before\nafter\n");
        }
        holder.kill();
        let (ended, _, _) = run.finish();
        assert_eq!(ended, Some(code), "{command}");
        let rest = lab.run_on(&["dedup", "store"], &input).expect(0);
        let expected = if command == "add" { &b""[..] } else { &few };
        assert_eq!(text(&rest), text(expected), "{command}");
    }
}

#[test]
fn add_waits_as_well() {
    let (held, _, input) = held_lines();
    for (kills, told) in [(true, "5 lines, 5 new\n"), (false, "5 lines, 2 new\n")] {
        let lab = Lab::new();
        let holder = Holder::start(&lab, &held, &[]);
        let mut run = Fed::start(&lab, &["add", "--stats", "--wait", LONG, "store"]);
        run.write(&input);
        drop(run.child.stdin.take());
        match kills {
            true => holder.kill(),
            false => drop(holder.finish()),
        }
        assert_eq!(run.finish(), (Some(0), Vec::new(), told.to_owned()));
        let ran = lab.run_on(&["check", "store"], &input);
        assert!(ran.expect(0) == input);
    }
}

/// A pipe and the blocks under way hold far less.
#[test]
fn input_is_read_while_another_run_is_waited_for() {
    let (held, _, input) = held_lines();
    let lab = Lab::new();
    let holder = Holder::start(&lab, &held, &[]);
    let mut run = Fed::start(&lab, &["dedup", "--wait", LONG, "store"]);
    let more = distinct_lines(300_000).split_off(held.len());
    let (mut stdin, out) = (run.child.stdin.take(), &mut run.out);
    let printed = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut printed = Vec::new();
            out.read_to_end(&mut printed).expect("a pipe can be read");
            printed
        });
        for bytes in [&input, &more] {
            let stdin = stdin.as_mut().expect("it is a pipe");
            stdin.write_all(bytes).expect("it reads");
        }
        holder.kill();
        drop(stdin);
        reader.join().expect("it ends")
    });
    let (code, _, err) = run.finish();
    assert_eq!((code, &err[..]), (Some(0), ""));
    assert!(printed == [input, more].concat());
}

#[test]
fn a_signal_ends_a_wait() {
    let (held, _, input) = held_lines();
    let lab = Lab::new();
    let holder = Holder::start(&lab, &held, &[]);
    let mut run = Fed::start(&lab, &["dedup", "--wait", LONG, "store"]);
    run.write(&input);
    assert_eq!(read_lines(&mut run.out, 1), b"before\n");
    kill_process(Pid::from_child(&run.child), Signal::TERM).expect("it is there");
    // Its input stays open: what ends it is the signal.
    let mut rest = Vec::new();
    run.out.read_to_end(&mut rest).expect("a pipe can be read");
    assert_eq!(wait(run.child).0.code(), Some(143));
    assert_eq!(rest, b"");
    holder.kill();
    let rest = lab.run_on(&["dedup", "store"], &input).expect(0);
    assert!(text(&input) == format!("before\n{}", text(&rest)));
}

/// What another run may still give back was not seen yet.
#[test]
fn a_pending_line_is_no_repeat() {
    let lab = Lab::new();
    let lines = distinct_lines(HELD);
    lab.write("lines", &lines);
    let holder = Holder::start(&lab, &lines, &[]);
    let ran = lab.run(&["dedup", "-q", "--seen", "--wait", "0s", "store", "lines"]);
    assert_eq!((ran.code, ran.out.len()), (Some(3), 0), "{}", ran.err);
    holder.finish();
    let ran = lab.run(&["dedup", "-q", "--seen", "store", "lines"]);
    assert!(ran.expect(0) == lines);
}
