//! What is said of a killed run's log that has lost bytes since.

use std::fs;

use super::{Message, placed};
use crate::support::{Lab, distinct_lines};

/// A store as a run leaves it that was killed after it had claimed 20 lines and had `commits` of them committed. Also the
/// length of its log.
fn killed(commits: usize) -> (Lab, usize) {
    let lab = Lab::new();
    lab.run(&["create", "store"]).expect(0);
    let store = everseen::testing::Options::new().open(lab.path("store"));
    let store = store.expect("a store");
    let lines = distinct_lines(20);
    for (number, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
        store.insert(line.trim_ascii_end()).expect("room");
        if number + 1 == commits {
            store.commit().expect("room");
        }
    }
    let names = [("store", "file"), ("store-log.1", "log")];
    for (name, left) in names {
        fs::copy(lab.path(name), lab.path(left)).expect("a copy");
    }
    store.close().expect("room");
    for (name, left) in names {
        fs::copy(lab.path(left), lab.path(name)).expect("a copy");
    }
    lab.write("urls", &lines);
    let length = fs::metadata(lab.path("log")).expect("a log").len();
    (lab, length as usize)
}

/// Cuts the log to a length, and expects that each command says so.
#[track_caller]
fn expect_said(lab: &Lab, length: usize, expected: &str) {
    let log = fs::read(lab.path("log")).expect("a log");
    lab.write("store-log.1", &log[..length]);
    for args in [
        &["check", "store", "urls"][..],
        &["info", "store"],
        &["verify", "store"],
        &["dedup", "store", "urls"],
        &["checkpoint", "store"],
        &["snapshot", "store", "copy"],
    ] {
        let ran = lab.run(args);
        ran.expect_message(&placed(lab, &format!("HERE/store-log.1: {expected}")));
        assert_eq!(ran.out, b"", "{args:?}");
    }
}

#[test]
fn a_log_that_is_shorter_than_it_was_made_is_named() {
    let (lab, length) = killed(0);
    for got in [4096, length - 1] {
        let expected = format!(
            "cut off: the file has {got} bytes, and was made with {length}; restore store and log from a copy, or give up \
             what is gone with `everseen repair`"
        );
        expect_said(&lab, got, &expected);
    }
    // The way out.
    lab.run(&["repair", "store"]).expect(0);
    lab.run(&["dedup", "store", "urls"]).expect(0);
}

#[test]
fn a_log_that_has_lost_a_commit_is_named() {
    let (lab, _) = killed(20);
    let log = fs::read(lab.path("log")).expect("a log");
    // What the note says (FORMAT.md, "The note").
    let durable = u64::from_le_bytes(log[520..528].try_into().expect("eight bytes"));
    assert!((4096..log.len() as u64).contains(&durable));
    let expected = format!(
        "damaged at byte 4096, inside what was durable up to byte {durable} at least; restore store and log from a copy, \
         or give up what follows with `everseen repair`"
    );
    expect_said(&lab, 4096, &expected);
    lab.run(&["repair", "store"]).expect(0);
    let out = lab.run(&["dedup", "store", "urls"]).expect(0);
    assert_eq!(out, distinct_lines(20));
}
