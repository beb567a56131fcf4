//! What the command says when it can't do what was asked: each message provoked, and all of standard error compared.
#![cfg(unix)]

mod failing;
mod logs;
mod refused;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Lab, Ran, distinct_lines};

/// A folder with a store of each sort, and what is none.
pub fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("urls.txt", &distinct_lines(60));
    lab.write("short", b"hi\n");
    lab.write("one", b"1");
    lab.write("empty", b"");
    lab.write("emptied", b"");
    lab.write("emptied-shm", b"EVERSHM8");
    for (name, options) in [
        ("small", &["--capacity", "50"][..]),
        ("other", &["--capacity", "50"]),
        ("grows", &["--kind", "scalable"]),
        ("counts", &["--kind", "counting", "--capacity", "50"]),
    ] {
        let args = [&["create", name], options].concat();
        lab.run(&args).expect(0);
    }
    let whole = fs::read(lab.path("small")).expect("a store");
    lab.write("cut", &whole[..131_000]);
    lab.run(&["snapshot", "grows", "copy"]).expect(0);
    lab.run(&["snapshot", "grows", "delta", "--since", "copy"])
        .expect(0);
    symlink("nowhere", lab.path("link")).expect("a link");
    fs::create_dir(lab.path("folder")).expect("a folder");
    lab
}

/// A message with the folder's own path, free of links, at `HERE`.
pub fn placed(lab: &Lab, expected: &str) -> String {
    let folder = lab.path(".").canonicalize().expect("a folder");
    expected.replace("HERE", &folder.display().to_string())
}

/// A run that ended with this message alone, and said what to do.
pub trait Message {
    fn expect_message(&self, expected: &str);
}

impl Message for Ran {
    #[track_caller]
    fn expect_message(&self, expected: &str) {
        assert_eq!(self.err, format!("everseen: {expected}\n"));
        assert_eq!(self.code, Some(2));
    }
}

/// What lies in the folder.
fn files(lab: &Lab) -> Vec<(OsString, Option<Vec<u8>>)> {
    let entries = fs::read_dir(lab.path(".")).expect("a folder");
    let entries = entries.map(|entry| entry.expect("a file"));
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name(), fs::read(entry.path()).ok()))
        .collect();
    files.sort();
    files
}

/// Each command ends with its message, prints nothing else, and leaves the folder as it is.
pub fn expect_refusals(lab: &Lab, table: &[(&[&str], &str)]) {
    let before = files(lab);
    for (args, expected) in table {
        let ran = lab.run(args);
        let expected = placed(lab, expected);
        assert_eq!(ran.err, format!("everseen: {expected}\n"), "{args:?}");
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert_eq!(ran.out, b"", "{args:?}");
        assert!(files(lab) == before, "{args:?}");
    }
}
