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

/// The parser of the command line repeats what it was given.
#[test]
fn errors_of_usage_show_names_and_values_escaped() {
    let lab = Lab::new();
    let option = format!("--{NAME}");
    let value = format!("--capacity={NAME}");
    for args in [
        &[NAME][..],
        &["dedup", &option],
        &["create", "store", &value],
        &["create", "store", "--kind", NAME],
        &["create", "store", "--fpr", NAME],
        &["checkpoint", "store", NAME],
        &["info", "store", "--timeout", NAME],
        &["verify", "store", NAME],
        &["check", "--block-size", NAME],
        &["plan", "--bits-per-key", NAME],
    ] {
        let ran = run(&lab, &Vec::from_iter(args.iter().map(OsStr::new)));
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {ran:?}");
        assert!(is_harmless(&ran.stderr), "{args:?}: {:?}", ran.stderr);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.starts_with("everseen: "), "{args:?}: {said}");
        if args[0] != "check" {
            assert!(said.contains(SHOWN), "{args:?}: {said}");
        }
    }
    // A name that is no text, and one that is escaped and not said.
    let odd = OsStr::from_bytes(b"caf\xe9 \x1b[31m");
    for args in [
        &[odd][..],
        &[OsStr::new("info"), OsStr::new("store"), odd],
        &[OsStr::new("info"), odd, OsStr::new("--nonsense")],
    ] {
        let ran = run(&lab, args);
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {ran:?}");
        assert!(is_harmless(&ran.stderr), "{args:?}: {:?}", ran.stderr);
        assert!(ran.stderr.starts_with(b"everseen: "), "{args:?}");
    }
}

/// JSON has escapes of its own for the same characters.
#[test]
fn json_has_no_character_that_a_terminal_obeys() {
    let lab = Lab::new();
    let other = format!("other{NAME}");
    let (name, other) = (OsStr::new(NAME), OsStr::new(&other));
    run(&lab, &[OsStr::new("create"), name]);
    let snapshot = ["snapshot", "--json"].map(OsStr::new);
    let create = ["create", "--json", "--like"].map(OsStr::new);
    let third = format!("third{NAME}");
    let third = OsStr::new(&third);
    for (args, shown) in [
        ([&snapshot[..], &[name, other]].concat(), other),
        ([&create[..], &[name, third]].concat(), third),
    ] {
        let ran = run(&lab, &args);
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        let said = [ran.stdout, ran.stderr];
        assert!(said.iter().all(|said| is_harmless(said)), "{said:?}");
        let json = said.iter().find(|said| said.starts_with(b"{"));
        let json: serde_json::Value = serde_json::from_slice(json.expect("JSON")).expect("JSON");
        assert_eq!(json["path"].as_str(), shown.to_str(), "{json}");
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
