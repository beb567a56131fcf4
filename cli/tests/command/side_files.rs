//! What bears the name of a file of the store's own is no input and no output: it is refused before anything is opened,
//! replaced or removed.
#![cfg(target_os = "linux")]

mod moments;
mod moved;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use crate::support::Lab;

const ENDINGS: [&str; 10] = [
    "-log.3",
    "-shm",
    "-shm.0",
    "-shm.spare",
    "-shm.making",
    "-new",
    "-part",
    "-gate",
    "-lock",
    "-handle.12",
];

const LINES: &[u8] = b"a line of the user's\n";

fn message(name: &str, store: &str) -> String {
    format!(
        "everseen: {name}: is a name that the store {store} uses for files of its own; choose another name\n"
    )
}

/// Runs a command that must be refused for a name, and must leave the folder as it is.
#[track_caller]
fn refused(lab: &Lab, args: &[&str], name: &str, store: &str) {
    let before = picture(lab);
    let ran = lab.run(args);
    assert_eq!(ran.err, message(name, store), "{args:?}");
    assert_eq!(ran.code, Some(2), "{args:?}");
    assert_eq!(picture(lab), before, "{args:?}");
}

/// All names with what is in the files.
fn picture(lab: &Lab) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    let entries = fs::read_dir(lab.path(".")).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<_> = paths
        .map(|path| {
            let bytes = fs::read(&path).ok();
            (path, bytes)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn inputs_are_refused_by_every_command_that_reads_lines() {
    let lab = Lab::new();
    lab.run(&["create", "seen", "--kind", "counting", "--capacity", "100"])
        .expect(0);
    lab.write("fine", LINES);
    for ending in ENDINGS {
        let name = format!("seen{ending}");
        lab.write(&name, LINES);
        for command in ["dedup", "add", "check", "remove", "exempt"] {
            refused(&lab, &[command, "seen", "fine", &name], &name, "seen");
        }
        // No store yet: it would be made, and its files with it.
        let other = format!("other{ending}");
        lab.write(&other, LINES);
        refused(&lab, &["dedup", "other", &other], &other, "other");
        fs::remove_file(lab.path(&name)).expect("ours");
    }
    for name in [
        "seen-log.",
        "seen-log.1.txt",
        "seen-news",
        "see-new",
        "seen-handle",
    ] {
        lab.write(name, LINES);
        lab.run(&["add", "seen", name]).expect(0);
    }
}

#[test]
fn no_way_to_name_it_is_a_way_around() {
    let lab = Lab::new();
    fs::create_dir(lab.path("folder")).expect("a folder");
    lab.run(&["create", "folder/seen"]).expect(0);
    lab.write("folder/seen-new", LINES);
    symlink("folder", lab.path("again")).expect("a link");
    symlink("folder/seen", lab.path("store")).expect("a link");
    symlink("folder/seen-new", lab.path("lines")).expect("a link");
    for store in [
        "folder/seen",
        "again/seen",
        "store",
        "./folder/../again/seen",
    ] {
        for input in ["folder/seen-new", "again/seen-new", "lines"] {
            refused(&lab, &["dedup", store, input], input, store);
        }
    }
    // By the name that was typed, too: that is where links are not resolved.
    lab.write("store-new", LINES);
    refused(&lab, &["dedup", "store", "store-new"], "store-new", "store");

    // On standard input and standard output.
    let path = lab.path("folder/seen-new");
    for args in [&["add", "folder/seen"][..], &["add", "folder/seen", "-"]] {
        let input = File::open(&path).expect("there");
        let ran = lab.command(args).stdin(input).output().expect("runs");
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(told, message("standard input", "folder/seen"));
    }
    for command in ["dedup", "check"] {
        let output = File::options().append(true).open(&path).expect("there");
        let args = [command, "folder/seen", "lines.txt"];
        lab.write("lines.txt", LINES);
        let ran = lab.command(&args).stdout(output).output().expect("runs");
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(told, message("standard output", "folder/seen"));
    }
    assert_eq!(fs::read(&path).expect("there"), LINES);
}

#[test]
fn no_file_that_is_to_hold_each_line_once_bears_such_a_name() {
    let lab = Lab::new();
    lab.run(&["create", "seen", "--transactional"]).expect(0);
    lab.write("fine", LINES);
    fs::create_dir(lab.path("folder")).expect("a folder");
    symlink("..", lab.path("folder/again")).expect("a link");
    for ending in ENDINGS {
        // There is none yet: it would be made.
        let name = format!("seen{ending}");
        refused(&lab, &["dedup", "-o", &name, "seen", "fine"], &name, "seen");
        let around = format!("folder/again/{name}");
        let args = ["dedup", "-o", &around, "seen", "fine"];
        refused(&lab, &args, &around, "seen");
    }
    // Then nothing is printed to standard output, whatever that is.
    let path = lab.path("seen-new");
    let output = File::create(&path).expect("made");
    let mut command = lab.command(&["dedup", "-o", "fresh", "seen", "fine"]);
    let ran = command.stdout(output).output().expect("runs");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "");
    assert_eq!(fs::read(lab.path("fresh")).expect("made"), LINES);
}

#[test]
fn stores_are_not_made_or_read_under_each_other_s_names() {
    let lab = Lab::new();
    for name in ["a", "a-new", "b-part", "copy", "delta-part"] {
        lab.run(&["create", name, "--capacity", "100"]).expect(0);
    }
    lab.write("copy-log.1", LINES);
    refused(&lab, &["snapshot", "a", "a-part"], "a-part", "a");
    refused(&lab, &["snapshot", "b-part", "b"], "b-part", "b");
    refused(
        &lab,
        &["snapshot", "a", "delta", "--since", "delta-part"],
        "delta-part",
        "delta",
    );
    refused(&lab, &["apply", "copy-log.1", "copy"], "copy-log.1", "copy");
    refused(&lab, &["union", "b", "a", "b-part"], "b-part", "b");
    refused(&lab, &["union", "a-shm", "a"], "a-shm", "a");
    refused(&lab, &["union", "c", "a", "a-new"], "a-new", "a");
    let fold = ["fold", "a", "a-gate", "--factor", "2"];
    refused(&lab, &fold, "a-gate", "a");
    let fold = ["fold", "b-part", "b", "--factor", "2"];
    refused(&lab, &fold, "b-part", "b");
    let like = ["create", "a-lock", "--like", "a"];
    refused(&lab, &like, "a-lock", "a");
    let like = ["create", "b", "--like", "b-part"];
    refused(&lab, &like, "b-part", "b");
}

#[test]
fn names_are_compared_as_bytes() {
    let lab = Lab::new();
    let name = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let (store, own, other) = (name(b"caf\xe9"), name(b"caf\xe9-new"), name(b"caf\xe8-new"));
    fs::write(lab.path(".").join(&other), LINES).expect("written");
    fs::write(lab.path(".").join(&own), LINES).expect("written");
    let dedup = |input| {
        let args = [OsStr::new("dedup"), &store, input];
        lab.command(&args).output().expect("runs")
    };
    assert_eq!(dedup(&own).status.code(), Some(2));
    assert_eq!(fs::read(lab.path(".").join(&own)).expect("there"), LINES);
    fs::remove_file(lab.path(".").join(&own)).expect("ours");
    let ran = dedup(&other);
    assert_eq!(
        ran.stdout,
        LINES,
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert_eq!(fs::read(lab.path(".").join(&other)).expect("there"), LINES);
}
