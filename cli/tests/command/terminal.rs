//! On a terminal: what is told there and nowhere else, and in which colours.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};

use crate::support::Lab;

/// A terminal: the side of the screen and the keyboard, and the one of programs.
fn terminal() -> (File, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    unlockpt(&terminal).expect("it is ours");
    let name = ptsname(&terminal, Vec::new()).expect("it has a name");
    let end = File::options()
        .read(true)
        .write(true)
        .open(OsStr::from_bytes(name.to_bytes()))
        .expect("the other end");
    (File::from(terminal), end)
}

/// Runs a command with standard error on a terminal, and returns what it said there.
fn on_terminal(mut command: Command) -> (Option<i32>, String) {
    let (mut terminal, end) = terminal();
    let mut child = command
        .env("TERM", "xterm-256color")
        .stdout(Stdio::null())
        .stderr(end)
        .spawn()
        .expect("it runs");
    // It holds the other end, too.
    drop(command);
    let mut said = Vec::new();
    let mut part = [0; 4096];
    // Fails once nobody holds the other end.
    while let Ok(length @ 1..) = terminal.read(&mut part) {
        said.extend(&part[..length]);
    }
    let code = child.wait().expect("it was started").code();
    (code, String::from_utf8(said).expect("text"))
}

#[test]
fn add_sums_up_on_a_terminal_unless_it_is_quiet() {
    let lab = Lab::new();
    lab.write("list", b"a\nb\n");
    lab.run(&["create", "store"]).expect(0);
    let (code, said) = on_terminal(lab.command(&["add", "store", "list"]));
    assert!(said.contains("2 lines, 2 new"), "{said}");
    assert_eq!(code, Some(0));
    let quiet = on_terminal(lab.command(&["add", "-q", "store", "list"]));
    assert_eq!(quiet, (Some(0), String::new()));
    let ran = lab.run(&["add", "store", "list"]);
    assert_eq!((ran.code, ran.err), (Some(0), String::new()));
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let lab = Lab::new();
    let wrong = || lab.command(&["dedup", "--no-such-option"]);
    let coloured = "\x1b[";
    let (code, said) = on_terminal(wrong());
    assert_eq!(code, Some(2));
    assert!(said.contains(coloured), "{said:?}");
    let mut command = wrong();
    command.env("NO_COLOR", "1");
    let (_, said) = on_terminal(command);
    assert!(
        said.contains("--no-such-option") && !said.contains(coloured),
        "{said:?}"
    );
    let ran = lab.run(&["dedup", "--no-such-option"]);
    assert!(!ran.err.contains(coloured), "{}", ran.err);
}

/// Somebody who forgot the file would wait for a program that waits for him.
#[test]
fn who_is_to_type_the_lines_is_told_so_unless_it_is_quiet() {
    let lab = Lab::new();
    lab.run(&["create", "store", "--kind", "counting", "--capacity", "9"])
        .expect(0);
    let asked = "everseen: reading standard input; end it with Ctrl-D\n";
    for (args, expected) in [
        (&["dedup", "store"][..], asked),
        (&["dedup", "store", "-"], asked),
        (&["dedup", "-q", "store"], ""),
        (&["add", "store"], asked),
        (&["add", "-q", "store"], ""),
        (&["check", "store"], asked),
        (&["check", "-q", "store"], ""),
        (&["remove", "-q", "store"], ""),
        (&["exempt", "-q", "store"], ""),
    ] {
        let (mut keyboard, end) = terminal();
        let mut command = lab.command(args);
        command
            .stdin(end)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = command.spawn().expect("it runs");
        // Ctrl-D at the begin of a line ends the input, also if it is typed before anybody reads.
        keyboard.write_all(b"a\n\x04").expect("it is read");
        let ran = child.wait_with_output().expect("it was started");
        assert_eq!(String::from_utf8_lossy(&ran.stderr), expected, "{args:?}");
    }
    // A file as input is no reason to ask.
    lab.write("list", b"a\n");
    let ran = lab.run(&["dedup", "store", "list"]);
    assert_eq!(ran.err, "");
}
