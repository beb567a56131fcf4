//! Files of Everseen where a list of lines, or a file for lines, is expected.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;

use crate::messages::expect_refusals;
use crate::support::{Lab, feed, wait};

/// Stores that fit each other, a delta, and lists.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("urls.txt", b"a\nb\n");
    lab.write("text", b"EVERSEEN\nEVERMORE\n");
    lab.run(&["create", "mon.ever"]).expect(0);
    lab.run(&["create", "tue.ever", "--like", "mon.ever"])
        .expect(0);
    lab.run(&["add", "tue.ever", "urls.txt"]).expect(0);
    lab.run(&["snapshot", "-q", "mon.ever", "copy"]).expect(0);
    lab.run(&["add", "mon.ever", "urls.txt"]).expect(0);
    let delta = ["snapshot", "-q", "mon.ever", "delta", "--since", "copy"];
    lab.run(&delta).expect(0);
    let store = fs::read(lab.path("tue.ever")).expect("a store");
    lab.write("part", &store[16_384..]);
    lab
}

/// Commands, and the one line that they say.
const TABLE: &[(&[&str], &str)] = &[
    (
        &["dedup", "today.txt", "tue.ever"],
        "tue.ever: is an Everseen store, not a list of lines; did you mean `everseen dedup tue.ever today.txt`?",
    ),
    (
        &["check", "urls.txt", "tue.ever"],
        "tue.ever: is an Everseen store, not a list of lines; did you mean `everseen check tue.ever urls.txt`?",
    ),
    (
        &["dedup", "mon.ever", "urls.txt", "tue.ever"],
        "tue.ever: is an Everseen store, not a list of lines; `everseen union NEW mon.ever tue.ever` makes a store with \
         the keys of both",
    ),
    (
        &["add", "mon.ever", "tue.ever"],
        "tue.ever: is an Everseen store, not a list of lines; `everseen union NEW mon.ever tue.ever` makes a store with \
         the keys of both",
    ),
    (
        &["add", "--no-decompress", "mon.ever", "./tue.ever"],
        "./tue.ever: is an Everseen store, not a list of lines; `everseen union NEW mon.ever ./tue.ever` makes a store \
         with the keys of both",
    ),
    (
        &["check", "mon.ever", "tue.ever"],
        "tue.ever: is an Everseen store, not a list of lines; `everseen intersect --count mon.ever tue.ever` counts the \
         keys that both have",
    ),
    (
        &["remove", "mon.ever", "tue.ever"],
        "tue.ever: is an Everseen store, not a list of lines; `everseen difference NEW mon.ever tue.ever` makes a store \
         without its keys",
    ),
    (
        &["exempt", "mon.ever", "tue.ever"],
        "tue.ever: is an Everseen store, not a list of lines; name a list of lines",
    ),
    (
        &["add", "mon.ever", "delta"],
        "delta: is a delta of an Everseen store, not a list of lines; `everseen apply delta COPY` brings a copy up to date",
    ),
    (
        &["add", "mon.ever", "part"],
        "part: is a part of an Everseen store, not a list of lines; name a list of lines",
    ),
    (
        &["dedup", "-o", "tue.ever", "fresh.txt", "urls.txt"],
        "tue.ever: is an Everseen store, which printed lines would damage; did you mean `everseen dedup -o fresh.txt \
         tue.ever`?",
    ),
    (
        &["dedup", "-o", "tue.ever", "mon.ever", "urls.txt"],
        "tue.ever: is an Everseen store, which printed lines would damage; name another file to print to",
    ),
    (
        &["dedup", "-o", "delta", "new.ever", "urls.txt"],
        "delta: is a delta of an Everseen store, which printed lines would damage; name another file to print to",
    ),
    (
        &["dedup", "-o", "./new.ever", "new.ever", "urls.txt"],
        "HERE/new.ever: is the store itself; name another file to print to",
    ),
];

#[test]
fn inputs_and_outputs_are_refused_before_anything_is_made() {
    let lab = lab();
    expect_refusals(&lab, TABLE);
    // A word is no store.
    let ran = lab.run(&["dedup", "-o", "text", "new.ever", "text"]);
    ran.expect_error("text: is also the output");
    let out = lab.run(&["dedup", "new.ever", "text"]).expect(0);
    assert_eq!(out, b"EVERSEEN\nEVERMORE\n");
    lab.run(&["dedup", "-o", "text", "new.ever", "urls.txt"])
        .expect(0);
}

#[test]
fn standard_input_and_compressed_data_are_looked_at_too() {
    let lab = lab();
    let store = fs::read(lab.path("tue.ever")).expect("a store");
    let union = "`everseen union NEW mon.ever OTHER` makes a store with the keys of both\n";
    let add = ["add", "mon.ever"];
    let input = File::open(lab.path("tue.ever")).expect("a store");
    let ran = lab.command(&add).stdin(input).output().expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&ran.stderr),
        format!("everseen: standard input: is an Everseen store, not a list of lines; {union}")
    );
    assert_eq!(ran.status.code(), Some(2));

    let mut run = lab.start(&add);
    drop(feed(&mut run, store.clone()).join().expect("written"));
    let (status, said) = wait(run);
    assert_eq!(
        said,
        format!("everseen: standard input: is an Everseen store, not a list of lines; {union}")
    );
    assert_eq!(status.code(), Some(2));

    let mut gzip = std::process::Command::new("gzip")
        .stdin(Stdio::piped())
        .stdout(File::create(lab.path("tue.gz")).expect("a new file"))
        .spawn()
        .expect("gzip is there");
    let mut into = gzip.stdin.take().expect("a pipe");
    into.write_all(&store).expect("it reads");
    drop(into);
    assert!(gzip.wait().expect("it ran").success());
    lab.run(&["add", "mon.ever", "urls.txt", "tue.gz"])
        .expect_error(
            "tue.gz: is gzip data of an Everseen store, not a list of lines; decompress it to use it as one",
        );
    lab.run(&["dedup", "new.ever", "tue.gz"])
        .expect_error("tue.gz: is gzip data of an Everseen store");
    assert!(!lab.path("new.ever").exists());
    // Without its name, and its bytes as they are.
    lab.run(&["add", "--no-decompress", "mon.ever", "tue.gz"])
        .expect(0);
    let known = lab.run(&["check", "-c", "mon.ever", "urls.txt"]).expect(0);
    assert_eq!(known, b"2\n");
}

#[test]
fn files_of_a_store_in_use_are_known_by_their_bytes() {
    let lab = lab();
    let mut run = lab.start(&["dedup", "used.ever", "--commit-every", "1"]);
    let lines = feed(&mut run, b"a\n".to_vec()).join().expect("written");
    // A file that is being made has its first bytes a moment after its name.
    let side = |part: &str| {
        let entries = fs::read_dir(lab.path(".")).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names = names.map(|name| name.to_string_lossy().into_owned());
        names.find(|name| {
            let number = name.strip_prefix(part);
            let is_made = number.is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()));
            is_made && fs::read(lab.path(name)).is_ok_and(|bytes| bytes.starts_with(b"EVER"))
        })
    };
    let parts = [
        ("used.ever-log.", "the log of an Everseen store"),
        ("used.ever-shm", "shared memory of an Everseen store"),
        ("used.ever-shm.", "shared memory of an Everseen store"),
    ];
    for (part, _) in parts {
        while side(part).is_none() {
            std::thread::yield_now();
        }
    }
    for (part, what) in parts {
        let name = side(part).expect("it was there");
        let copied = fs::copy(lab.path(&name), lab.path("copied"));
        copied.expect("copied");
        lab.run(&["dedup", "new.ever", "copied"])
            .expect_error(&format!(
                "copied: is {what}, not a list of lines; name a list of lines"
            ));
        assert!(!lab.path("new.ever").exists());
    }
    drop(lines);
    assert!(wait(run).0.success());
}

#[test]
fn nothing_is_appended_to_a_store_by_the_shell() {
    let lab = lab();
    let before = fs::read(lab.path("tue.ever")).expect("a store");
    for args in [
        &["dedup", "mon.ever", "text"][..],
        &["check", "-v", "mon.ever", "text"],
        &["check", "-c", "mon.ever", "urls.txt"],
        &["info", "mon.ever"],
        &["report", "mon.ever"],
        &["plan", "--capacity", "1000", "--fpr", "0.01"],
    ] {
        let file = File::options().append(true).open(lab.path("tue.ever"));
        let mut command = lab.command(args);
        let ran = command.stdout(file.expect("a store")).output();
        let ran = ran.expect("it runs");
        assert_eq!(
            String::from_utf8_lossy(&ran.stderr),
            "everseen: standard output: is an Everseen store, which printed lines would damage; redirect it to another \
             file\n",
            "{args:?}"
        );
        assert_eq!(ran.status.code(), Some(2), "{args:?}");
    }
    assert!(fs::read(lab.path("tue.ever")).expect("a store") == before);
}
