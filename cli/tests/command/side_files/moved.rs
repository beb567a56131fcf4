//! Files of a store that are removed or linked while it is in use: what the messages promise holds.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::support::{Lab, wait};

/// A run of `dedup` that has committed a line, and waits for more.
fn running(lab: &Lab) -> (Child, std::process::ChildStdin) {
    let mut child = lab.start(&["dedup", "store", "--commit-every", "1"]);
    let mut lines = child.stdin.take().expect("a pipe");
    lines.write_all(b"first\n").expect("it reads");
    let mut out = child.stdout.take().expect("a pipe");
    let mut line = [0; 6];
    out.read_exact(&mut line).expect("it prints");
    // Before it prints the next line, it commits the first.
    lines.write_all(b"other\n").expect("it reads");
    out.read_exact(&mut line).expect("it prints");
    // Stays open, as what is printed later must not fail.
    child.stdout = Some(out);
    (child, lines)
}

fn known(lab: &Lab) -> Vec<u8> {
    lab.run_on(&["check", "store"], b"first\n").out
}

fn placed(lab: &Lab, name: &str) -> PathBuf {
    let folder = lab.path(".").canonicalize().expect("a folder");
    folder.join(name)
}

/// What a run says when a file of its store is removed.
fn without(lab: &Lab, name: &Path) -> String {
    let (child, mut lines) = running(lab);
    fs::remove_file(name).expect("it is there");
    lines.write_all(b"second\n").expect("it reads");
    drop(lines);
    let (status, said) = wait(child);
    assert_eq!(status.code(), Some(2));
    said
}

#[test]
fn without_its_log_a_store_can_be_repaired() {
    let lab = Lab::new();
    let (store, log) = (placed(&lab, "store"), placed(&lab, "store-log.1"));
    assert_eq!(
        without(&lab, &log),
        format!(
            "everseen: {}: this log of the store was removed, renamed or replaced while the store was open; put it back, \
             or, if it is lost, give up what was in it with `everseen repair {}`\n",
            log.display(),
            store.display()
        )
    );
    let next = lab.run_on(&["dedup", "store"], b"third\n");
    next.expect_error("the log of generation 1 is missing");
    lab.run(&["repair", "store"]).expect(0);
    let next = lab.run_on(&["dedup", "store"], b"first\n");
    assert_eq!(next.expect(0), b"first\n");
}

#[test]
fn a_store_that_is_gone_is_to_be_put_back() {
    let lab = Lab::new();
    let store = placed(&lab, "store");
    lab.run_on(&["dedup", "store"], b"zeroth\n").expect(0);
    let (child, mut lines) = running(&lab);
    fs::rename(&store, lab.path("away")).expect("it is there");
    lines.write_all(b"second\n").expect("it reads");
    drop(lines);
    let (status, said) = wait(child);
    assert_eq!(status.code(), Some(2));
    assert_eq!(
        said,
        format!(
            "everseen: {}: was removed, renamed or replaced while the store was open; put it back, or restore it from a \
             copy\n",
            store.display()
        )
    );
    fs::rename(lab.path("away"), &store).expect("it is there");
    let next = lab.run_on(&["check", "store"], b"zeroth\nfirst\n");
    assert_eq!(next.expect(0), b"zeroth\nfirst\n");
}

#[test]
fn a_log_beside_another_name_is_not_given_up_for_lost() {
    let lab = Lab::new();
    let (mut child, _lines) = running(&lab);
    child.kill().expect("it runs");
    child.wait().expect("it was started");
    fs::create_dir(lab.path("folder")).expect("a folder");
    fs::hard_link(lab.path("store"), lab.path("folder/store")).expect("a second name");
    for args in [&["info", "folder/store"][..], &["check", "folder/store"]] {
        let ran = lab.run(args);
        assert_eq!(
            ran.err,
            format!(
                "everseen: {}: the log of generation 1 does not lie beside this name of the store, and the file has 2 names \
                 (hard links); open it by the one beside which the log lies, or, if the log is lost, give it up with \
                 `everseen repair`\n",
                placed(&lab, "folder/store").display()
            )
        );
        assert_eq!(ran.code, Some(2));
    }
    assert_eq!(known(&lab), b"first\n");
}
