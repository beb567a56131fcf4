//! Names of files that do more than stand in a line: no name writes to a terminal what its file's owner likes.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Output;

use crate::support::Lab;

/// Sets a title, rings the bell, forges a line, begins a sequence with one character (C1), turns the text around.
const NAME: &str = "a\x1b]0;owned\x07\r\nforged: ok\u{9b}31m\u{202e}b";
const SHOWN: &str = "a\\x1b]0;owned\\x07\\r\\nforged: ok\\u{9b}31m\\u{202e}b";

fn run(lab: &Lab, args: &[&OsStr]) -> Output {
    lab.command(args).output().expect("the binary runs")
}

/// Whether a text has nothing but lines of plain characters.
fn is_harmless(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    !text
        .chars()
        .any(|char| (char.is_control() && char != '\n') || char == '\u{202e}')
}

#[test]
fn messages_and_facts_show_names_escaped() {
    let lab = Lab::new();
    lab.write("lines", b"x\ny\n");
    lab.write("long", &[b'x'; 100]);
    lab.write("junk", &[b'x'; 5000]);
    fs::rename(lab.path("junk"), lab.path(&format!("junk{NAME}"))).expect("renamed");
    fs::rename(lab.path("long"), lab.path(&format!("long{NAME}"))).expect("renamed");
    let (missing, junk, long) = (
        format!("missing{NAME}"),
        format!("junk{NAME}"),
        format!("long{NAME}"),
    );
    let copy = format!("copy{NAME}");
    for (args, code, name) in [
        (&["create", "--kind", "fingerprint", NAME][..], 0, SHOWN),
        (&["create", NAME], 2, SHOWN),
        (&["add", "--stats", NAME, "lines"], 0, ""),
        (&["info", NAME], 0, SHOWN),
        (&["info", &missing], 2, SHOWN),
        (&["verify", &missing], 2, SHOWN),
        (&["info", &junk], 2, SHOWN),
        (&["dedup", &junk, "lines"], 2, SHOWN),
        (&["dedup", "store", &missing], 2, SHOWN),
        (&["dedup", "--max-line", "9", "store", &long], 2, SHOWN),
        (&["dedup", "--url", "urls", &long], 0, SHOWN),
        (&["dedup", "--capacity", "9", NAME, "lines"], 0, SHOWN),
        (&["snapshot", NAME, &copy], 0, SHOWN),
        (&["snapshot", NAME, &copy], 2, SHOWN),
        (&["union", &format!("union{NAME}"), NAME, &copy], 0, SHOWN),
        (&["check", NAME, "lines"], 0, ""),
    ] {
        let args = Vec::from_iter(args.iter().map(OsStr::new));
        let ran = run(&lab, &args);
        assert_eq!(ran.status.code(), Some(code), "{args:?}: {ran:?}");
        let said = [ran.stdout, ran.stderr].concat();
        assert!(is_harmless(&said), "{args:?}: {said:?}");
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(name), "{args:?}: {said}");
        if code == 2 {
            assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        }
    }
}

/// What `check -n` prints is for programs: the name is the file's, byte for byte.
#[test]
fn numbered_lines_begin_with_the_bytes_of_their_file_s_name() {
    let lab = Lab::new();
    let name = b"caf\xe9 \x1b[31m";
    fs::write(lab.path(".").join(OsStr::from_bytes(name)), b"x\ny\n").expect("written");
    lab.write("other", b"y\nz\n");
    lab.run_on(&["dedup", "store"], b"y\n").expect(0);
    let args = ["check", "-n", "store"].map(OsStr::new);
    let args = [&args[..], &[OsStr::from_bytes(name), OsStr::new("other")]].concat();
    let ran = run(&lab, &args);
    assert_eq!(ran.status.code(), Some(0));
    assert_eq!(ran.stdout, [&name[..], b":2:y\nother:1:y\n"].concat());
}
