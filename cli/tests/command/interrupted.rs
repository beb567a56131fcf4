//! Whatever ends a run early, running it again loses no line.
#![cfg(unix)]

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout};

#[cfg(target_os = "linux")]
use rustix::io::ioctl_fionread;
#[cfg(target_os = "linux")]
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Lab, distinct_lines, feed, first_occurrences, items, repetitive_lines, wait};

/// Reads this many lines, which says that the process has got so far.
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

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("the process is there");
}

fn output_of(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().expect("standard output is a pipe"))
}

/// The whole lines of an output that may have been cut off.
fn whole_lines(output: &[u8]) -> HashSet<&[u8]> {
    let whole = output
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    items(b'\n', &output[..whole]).into_iter().collect()
}

#[test]
fn a_signal_ends_it_in_good_order_and_the_rest_comes_later() {
    let signals = [(Signal::HUP, 129), (Signal::INT, 130), (Signal::TERM, 143)];
    for (signal, code) in signals {
        let lab = Lab::new();
        let input = distinct_lines(100_000);
        let mut child = lab.start(&["dedup", "--commit-every", "1000", "--stats", "store"]);
        let feeder = feed(&mut child, input.clone());
        let mut out = output_of(&mut child);

        let mut first = read_lines(&mut out, 10_000);
        send(&child, signal);
        out.read_to_end(&mut first).expect("a pipe can be read");
        let (status, err) = wait(child);
        // The input stays open until here: what ended the run was the signal, unless it was through already.
        drop(feeder.join());
        assert_eq!(status.code(), Some(code), "{err}");
        assert!(err.contains(" lines, "), "{err}");

        // All that was printed is remembered, and nothing else is.
        let second = lab.run_on(&["dedup", "store"], &input).expect(0);
        assert!([first, second].concat() == input);
    }
}

#[test]
fn a_signal_ends_a_run_that_waits_for_input() {
    let lab = Lab::new();
    let mut child = lab.start(&["dedup", "store"]);
    let mut out = output_of(&mut child);
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    stdin
        .write_all(b"one\ntwo\nunfini")
        .expect("the process reads");
    assert_eq!(read_lines(&mut out, 2), b"one\ntwo\n");
    send(&child, Signal::INT);
    assert_eq!(wait(child).0.code(), Some(130));
    drop(stdin);
    assert_eq!(
        lab.run_on(&["dedup", "store"], b"one\ntwo\nunfinished\n")
            .expect(0),
        b"unfinished\n"
    );
}

/// The user may append to the file but not read it, so nothing says whether its last line is ended.
#[test]
fn no_line_is_glued_to_one_that_can_t_be_read() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let lab = Lab::new();
    let folder = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(lab.path("."), folder).expect("ours");
    let told = "everseen: standard output: the file can't be read, so whether its last line is ended is unknown; what is \
                printed begins with a line end\n";
    for (store, before, quiet, expected, said) in [
        ("one", &b"xa"[..], false, &b"xa\nb\n"[..], told),
        ("two", b"xa", true, b"xa\nb\n", ""),
        ("three", b"", false, b"b\n", ""),
        // Nothing is printed, so nothing is added.
        ("one", b"xa", false, b"xa", ""),
    ] {
        lab.write("out", before);
        let mode = std::fs::Permissions::from_mode(0o200);
        std::fs::set_permissions(lab.path("out"), mode).expect("ours");
        let out = std::fs::File::options().append(true).open(lab.path("out"));
        lab.write("input", b"b\n");
        let input = std::fs::File::open(lab.path("input")).expect("there");
        let mut command = lab.command(&["dedup", store]);
        command.args(quiet.then_some("-q"));
        command.stdin(input).stdout(out.expect("ours"));
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
        let ran = match command.output() {
            Ok(ran) => ran,
            Err(error) => {
                println!("skipped: the binary is not for others: {error}");
                return;
            }
        };
        assert_eq!(String::from_utf8_lossy(&ran.stderr), said, "{store}");
        assert!(ran.status.success(), "{store}");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(lab.path("out"), mode).expect("ours");
        assert_eq!(std::fs::read(lab.path("out")).expect("ours"), expected);
    }
}

/// What would be printed goes nowhere then, although nothing fails.
#[cfg(target_os = "linux")]
#[test]
fn a_closed_output_is_refused_before_anything_is_remembered() {
    let lab = Lab::new();
    lab.write("input", b"a\nb\n");
    let shell = |script: &str| {
        let mut command = std::process::Command::new("sh");
        let everseen = env!("CARGO_BIN_EXE_everseen");
        let command = command.args(["-c", script, everseen]);
        command
            .current_dir(lab.path("."))
            .output()
            .expect("a shell")
    };
    for closed in [">&-", "<&- >&-"] {
        let ran = shell(&format!("\"$0\" dedup store input {closed}"));
        assert_eq!(ran.status.code(), Some(2), "{closed}");
        assert!(
            ran.stderr
                .starts_with(b"everseen: standard output is closed"),
            "{closed}"
        );
    }
    assert!(!lab.path("store").exists());
    // Nobody needs it who prints to a file, or nothing.
    assert_eq!(
        shell("\"$0\" dedup -o out store input >&-").status.code(),
        Some(0)
    );
    assert_eq!(shell("\"$0\" add store input >&-").status.code(), Some(0));
    assert_eq!(
        std::fs::read(lab.path("out")).expect("it was written"),
        b"a\nb\n"
    );
    assert_eq!(shell("\"$0\" check store input >&-").status.code(), Some(2));
    assert_eq!(shell("\"$0\" info store >&-").status.code(), Some(2));
    // Where it is to go nowhere, it does: some open that for reading too.
    for nowhere in [">/dev/null", "1<>/dev/null"] {
        let ran = shell(&format!("\"$0\" dedup nowhere input {nowhere}"));
        assert_eq!(ran.status.code(), Some(0), "{nowhere}");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let lab = Lab::new();
    let input = distinct_lines(100_000);
    lab.write("input", &input);
    let mut child = lab.start(&["dedup", "store", "input"]);
    let mut out = output_of(&mut child);
    read_lines(&mut out, 1);
    // Nobody reads on, so that the process can't finish its block, let alone end in good order.
    let mut signals = [Signal::INT, Signal::TERM].into_iter().cycle();
    let status = loop {
        send(&child, signals.next().expect("a cycle goes on"));
        if let Some(status) = child.try_wait().expect("the binary was started") {
            break status;
        }
        std::thread::yield_now();
    };
    assert!(matches!(status.code(), Some(130 | 143)), "{status}");
    assert!(lab.run(&["dedup", "store", "input"]).expect(0) == input);
}

#[test]
fn a_kill_loses_no_line() {
    let mut random = fastrand::Rng::with_seed(4);
    let input = repetitive_lines(&mut random, 30_000);
    let expected = first_occurrences(b'\n', &input);
    let all = whole_lines(&expected);
    for _ in 0..10 {
        let lab = Lab::new();
        let mut child = lab.start(&["dedup", "--commit-every", "500", "store"]);
        let feeder = feed(&mut child, input.clone());
        let mut out = output_of(&mut child);

        let mut first = read_lines(&mut out, random.usize(2_000..10_000));
        send(&child, Signal::KILL);
        out.read_to_end(&mut first).expect("a pipe can be read");
        assert_eq!(wait(child).0.code(), None);
        drop(feeder.join());

        let second = lab.run_on(&["dedup", "store"], &input).expect(0);
        let (first, second) = (whole_lines(&first), whole_lines(&second));
        assert!(first.union(&second).copied().collect::<HashSet<_>>() == all);
        // The output came in order, so that the commits before the last lines read had been made.
        assert!(
            second.len() < all.len() - 1_000,
            "{} lines of {} came twice",
            second.len(),
            all.len()
        );
        assert_eq!(lab.run_on(&["dedup", "store"], &input).expect(0), b"");
    }
}

#[test]
fn a_line_that_a_kill_cut_off_swallows_none_that_is_appended() {
    let lab = Lab::new();
    for (before, input, after) in [
        ("", "one\ntwo\n", "one\ntwo\n"),
        ("one\ntwo\n", "three\n", "one\ntwo\nthree\n"),
        ("one\nfo", "four\nfive\n", "one\nfo\nfour\nfive\n"),
        ("one\nfo", "four\none\n", "one\nfo"),
    ] {
        lab.write("output", before.as_bytes());
        lab.write("input", input.as_bytes());
        let output = std::fs::File::options()
            .append(true)
            .open(lab.path("output"))
            .expect("it was just written");
        let mut command = lab.command(&["dedup", "store", "input"]);
        let status = command.stdout(output).status().expect("the binary runs");
        assert!(status.success(), "{status}");
        let got = std::fs::read_to_string(lab.path("output")).expect("text");
        assert_eq!(got, after);
    }
}

#[test]
fn a_closed_pipe_is_a_quiet_end_and_what_was_not_committed_comes_again() {
    let lab = Lab::new();
    let input = distinct_lines(200_000);
    lab.write("input", &input);
    let mut child = lab.start(&["dedup", "store", "input"]);
    let mut out = output_of(&mut child);
    read_lines(&mut out, 3);
    drop(out);
    let (status, err) = wait(child);
    assert_eq!((status.code(), &err[..]), (Some(0), ""));
    // There are fewer lines than the default of lines to a commit.
    assert!(lab.run(&["dedup", "store", "input"]).expect(0) == input);
}

/// The pipe has room for all of them, and that counts as little as the room of a small one.
#[cfg(target_os = "linux")]
#[test]
fn lines_that_nobody_has_read_come_again() {
    let lab = Lab::new();
    let input = distinct_lines(20_000);
    assert!((2 << 16..1 << 20).contains(&input.len()));
    lab.write("input", &input);
    for is_large_before in [false, true] {
        let (out, writer) = std::io::pipe().expect("there are pipes");
        if is_large_before {
            // As a run before this one leaves it. The system may refuse.
            let _ = fcntl_setpipe_size(&writer, 1 << 20);
        }
        let mut command = lab.command(&["dedup", "store", "input"]);
        let mut child = command.stdout(writer).spawn().expect("the binary starts");
        // It has the end for writing as well.
        drop(command);
        // All of it, unless the system gives no larger pipe.
        let room = || {
            fcntl_getpipe_size(&out)
                .expect("it is a pipe")
                .min(input.len())
        };
        while ioctl_fionread(&out).expect("it is a pipe") < room() as u64 {
            let ended = child.try_wait().expect("it was started");
            assert_eq!(ended, None, "nobody has read it");
            std::thread::yield_now();
        }
        drop(out);
        assert_eq!(child.wait().expect("it was started").code(), Some(0));
    }
    assert!(lab.run(&["dedup", "store", "input"]).expect(0) == input);
}

#[test]
fn lines_are_printed_while_the_input_is_still_open() {
    let lab = Lab::new();
    let mut child = lab.start(&["dedup", "store"]);
    let mut out = output_of(&mut child);
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    for line in ["one\n", "two\n", "three\n"] {
        stdin.write_all(line.as_bytes()).expect("the process reads");
        assert_eq!(read_lines(&mut out, 1), line.as_bytes());
    }
    drop(stdin);
    assert_eq!(wait(child).0.code(), Some(0));
}

/// `/dev/full` refuses every byte.
#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_an_error_and_nothing_is_remembered() {
    let lab = Lab::new();
    lab.write("input", b"a\nb\n");
    for args in [
        &["dedup", "store", "input"][..],
        &["dedup", "--commit-every", "1", "store", "input"],
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it");
        let ran = lab
            .command(args)
            .stdout(full)
            .output()
            .expect("the binary runs");
        assert_eq!(ran.status.code(), Some(2));
        assert!(ran.stderr.starts_with(b"everseen: standard output: "));
    }
    assert_eq!(lab.run(&["dedup", "store", "input"]).expect(0), b"a\nb\n");
}
