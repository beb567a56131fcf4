//! Streams, signals and limits as the parent process left them.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Lab, distinct_lines, json};

/// A pipe of which one end fails where it would have to wait, as a program leaves it that uses it in a loop of events.
struct NonblockingPipe {
    reader: File,
    writer: File,
}

impl NonblockingPipe {
    fn with_nonblocking(end: impl Fn(&Self) -> &File) -> Self {
        // No child of a test that runs beside this one may keep an end open.
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let pipe = NonblockingPipe {
            reader: File::from(reader),
            writer: File::from(writer),
        };
        let flags = fcntl_getfl(end(&pipe)).expect("its flags");
        fcntl_setfl(end(&pipe), flags | OFlags::NONBLOCK).expect("set");
        pipe
    }

    fn is_full(&self) -> bool {
        let mut ends = [PollFd::new(&self.writer, PollFlags::OUT)];
        poll(&mut ends, Some(&Timespec::default())).expect("polls") == 0
    }
}

/// The end of a pipe for a child, while the test keeps its own.
fn dup(file: &File) -> OwnedFd {
    file.try_clone().expect("another descriptor").into()
}

/// Waits until a process has filled a pipe that is not read.
fn fill(pipe: &NonblockingPipe, child: &mut Child) {
    while !pipe.is_full() {
        let ended = child.try_wait().expect("the binary was started");
        assert_eq!(ended, None, "it gave up before the pipe was full");
        std::thread::yield_now();
    }
}

#[test]
fn an_output_that_would_not_wait_gets_all_lines() {
    let lab = Lab::new();
    let lines = distinct_lines(100_000);
    lab.write("lines", &lines);
    lab.run(&["create", "known"]).expect(0);
    lab.run(&["add", "known", "lines"]).expect(0);
    for args in [
        &["dedup", "store", "lines"][..],
        &["check", "known", "lines"],
    ] {
        let pipe = NonblockingPipe::with_nonblocking(|pipe| &pipe.writer);
        let mut command = lab.command(args);
        command.stdout(dup(&pipe.writer)).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        drop(command);
        fill(&pipe, &mut child);
        let NonblockingPipe { mut reader, writer } = pipe;
        let flags = fcntl_getfl(&writer).expect("its flags");
        assert!(flags.contains(OFlags::NONBLOCK), "others need the flag");
        drop(writer);
        let mut printed = Vec::new();
        reader
            .read_to_end(&mut printed)
            .expect("a pipe can be read");
        let ran = child.wait_with_output().expect("it was started");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(0), "{said}");
        assert!(printed == lines, "{args:?}: {} bytes", printed.len());
    }
}

#[test]
fn an_input_that_would_not_wait_is_read_to_its_end() {
    let lab = Lab::new();
    let packed = [
        include_bytes!("../../data/lines.gz").to_vec(),
        include_bytes!("../../data/lines.xz").to_vec(),
    ];
    for (number, packed) in packed.iter().enumerate() {
        let pipe = NonblockingPipe::with_nonblocking(|pipe| &pipe.reader);
        let store = format!("packed-{number}");
        let mut command = lab.command(&["dedup", &store]);
        command.stdin(dup(&pipe.reader)).stdout(Stdio::piped());
        let child = command.spawn().expect("the binary starts");
        drop(command);
        let mut writer = pipe.writer;
        for piece in packed.chunks(20) {
            writer.write_all(piece).expect("it is read");
            std::thread::yield_now();
        }
        drop(writer);
        let ran = child.wait_with_output().expect("it was started");
        assert_eq!(ran.status.code(), Some(0), "{store}");
        assert_eq!(ran.stdout.iter().filter(|byte| **byte == b'\n').count(), 40);
    }
    // Each line is printed before the next one comes, so the input is read while it is empty.
    let pipe = NonblockingPipe::with_nonblocking(|pipe| &pipe.reader);
    let mut command = lab.command(&["dedup", "store"]);
    command.stdin(dup(&pipe.reader)).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    drop(command);
    let mut writer = pipe.writer;
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    for line in ["one\n", "two\n", "three\n"] {
        writer.write_all(line.as_bytes()).expect("it is read");
        let mut printed = String::new();
        out.read_line(&mut printed).expect("a pipe can be read");
        assert_eq!(printed, line);
    }
    drop(writer);
    assert_eq!(child.wait().expect("it was started").code(), Some(0));
}

#[test]
fn a_summary_waits_for_a_reader_that_others_would_not_wait_for() {
    let lab = Lab::new();
    lab.write("lines", b"a\nb\n");
    let pipe = NonblockingPipe::with_nonblocking(|pipe| &pipe.writer);
    while !pipe.is_full() {
        (&pipe.writer)
            .write_all(&[b'\n'; 4096])
            .expect("there is room");
    }
    let mut command = lab.command(&["dedup", "--json", "store", "lines"]);
    command.stdout(Stdio::piped()).stderr(dup(&pipe.writer));
    let mut child = command.spawn().expect("the binary starts");
    drop(command);
    let place = format!("/proc/{}/wchan", child.id());
    let polls = || {
        let place = fs::read_to_string(&place);
        place.is_ok_and(|place| place.contains("poll"))
    };
    // With so few lines, it polls for nothing else.
    while !polls() {
        let ended = child.try_wait().expect("the binary was started");
        assert_eq!(ended, None, "it dropped the summary");
        std::thread::yield_now();
    }
    let NonblockingPipe { mut reader, writer } = pipe;
    drop(writer);
    let mut said = Vec::new();
    reader.read_to_end(&mut said).expect("a pipe can be read");
    assert_eq!(child.wait().expect("it was started").code(), Some(0));
    assert_eq!(json(&said)["lines"], 2);
}

/// Runs a script of `sh` in a folder; `$0` is the binary.
fn sh(lab: &Lab, script: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_everseen")]);
    let ran = command.current_dir(lab.path(".")).stdin(Stdio::null());
    ran.output().expect("a shell")
}

#[test]
fn what_was_asked_for_and_can_t_be_written_is_an_error() {
    let lab = Lab::new();
    lab.write("lines", b"a\nb\n");
    lab.run(&["create", "seen", "--capacity", "1000", "--kind", "counting"])
        .expect(0);
    for args in [
        "--help > /dev/full",
        "--version > /dev/full",
        "dedup --help > /dev/full",
        "help dedup > /dev/full",
        "info seen > /dev/full",
        "completions bash > /dev/full",
        "dedup store lines > /dev/full",
        "dedup --json store lines 2> /dev/full",
        "dedup --stats store lines 2> /dev/full",
        "add --json seen lines 2> /dev/full",
        "add --stats seen lines 2> /dev/full",
        "check --json seen lines 2> /dev/full",
        "remove --json seen lines 2> /dev/full",
        "exempt --json seen lines 2> /dev/full",
        "snapshot --json seen copy 2> /dev/full",
    ] {
        let ran = sh(&lab, &format!("\"$0\" {args}"));
        assert_eq!(ran.status.code(), Some(2), "{args}");
        if args.contains("2>") {
            continue;
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        let expected =
            "everseen: standard output: no space left on the disk; make room and try again\n";
        assert_eq!(said, expected, "{args}");
    }
    // A reader that has enough may go.
    for args in ["--help", "dedup --json again lines 2>&1 >/dev/null"] {
        let ran = sh(&lab, &format!("(\"$0\" {args}; echo $? > status) | true"));
        assert_eq!(ran.status.code(), Some(0), "{args}");
        let status = fs::read_to_string(lab.path("status")).expect("written");
        assert_eq!(status, "0\n", "{args}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_that_leaves_nothing() {
    let lab = Lab::new();
    lab.write("lines", &distinct_lines(200_000));
    // In blocks of 512 bytes.
    let ran = sh(
        &lab,
        "ulimit -f 100; exec \"$0\" dedup new.ever lines > out",
    );
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("new.ever"), "{said}");
    assert!(said.to_lowercase().contains("file too large"), "{said}");
    let names = |lab: &Lab| {
        let entries = fs::read_dir(lab.path(".")).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names = Vec::from_iter(names.map(|name| name.into_string().expect("text")));
        names.sort();
        names
    };
    assert_eq!(names(&lab), ["lines", "out"]);

    // Later, in a store that grows: what was printed is remembered, and the rest comes when there is room.
    let dedup = "exec \"$0\" dedup --buffer 1M s.ever lines";
    let ran = sh(&lab, &format!("ulimit -f 1800; {dedup}"));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.to_lowercase().contains("file too large"), "{said}");
    let rest = sh(&lab, dedup);
    assert_eq!(rest.status.code(), Some(0));
    let printed = [ran.stdout, rest.stdout].concat();
    let mut printed = Vec::from_iter(printed.split(|byte| *byte == b'\n'));
    let lines = distinct_lines(200_000);
    let mut lines = Vec::from_iter(lines.split(|byte| *byte == b'\n'));
    printed.sort();
    printed.dedup();
    lines.sort();
    lines.dedup();
    assert!(printed == lines, "{} of {}", printed.len(), lines.len());
    assert_eq!(names(&lab), ["lines", "out", "s.ever"]);
}

/// `nohup` has a process ignore hangups, and a shell without job control has what it starts with `&` ignore Ctrl-C.
#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let lab = Lab::new();
    for (name, signal) in [
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("TERM", Signal::TERM),
    ] {
        let script = format!("trap '' {name}; exec \"$0\" dedup \"$1\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_everseen")]);
        command.arg(lab.path(name));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut stdin = child.stdin.take().expect("a pipe");
        for line in ["one\n", "two\n", "three\n"] {
            stdin.write_all(line.as_bytes()).expect("it reads");
            let mut printed = String::new();
            out.read_line(&mut printed).expect("a pipe can be read");
            assert_eq!(printed, line, "SIG{name}");
            kill_process(Pid::from_child(&child), signal).expect("it is there");
        }
        drop(stdin);
        let code = child.wait().expect("it was started").code();
        assert_eq!(code, Some(0), "SIG{name}");
    }
}
