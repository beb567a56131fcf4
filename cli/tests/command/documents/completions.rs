//! What is generated from the command line: completions and manual pages.

use std::fs;
use std::process::Command;

use crate::support::Lab;

pub const SUBCOMMANDS: [&str; 21] = [
    "add",
    "apply",
    "check",
    "checkpoint",
    "completions",
    "count",
    "create",
    "dedup",
    "difference",
    "exempt",
    "fold",
    "info",
    "intersect",
    "man",
    "plan",
    "remove",
    "repair",
    "report",
    "snapshot",
    "union",
    "verify",
];

#[test]
fn completions_know_every_subcommand() {
    let lab = Lab::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = lab.run(&["completions", shell]).expect(0);
        let text = String::from_utf8(text).expect("text");
        for subcommand in SUBCOMMANDS {
            assert!(text.contains(subcommand), "{shell}: {subcommand}");
        }
    }
    let ran = lab.run(&["completions", "tcsh"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("possible values: bash"), "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn bash_takes_its_completions() {
    let lab = Lab::new();
    let text = lab.run(&["completions", "bash"]).expect(0);
    lab.write("completions", &text);
    let script = "source completions && COMP_WORDS=(everseen ded) COMP_CWORD=1 && _everseen everseen ded everseen && \
                  echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash")
        .args(["-c", script])
        .current_dir(lab.path(""))
        .output();
    let Ok(output) = bash else {
        eprintln!("skipped: no bash here");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "dedup\n");
}

#[test]
fn there_is_a_manual_page_for_every_subcommand() {
    let lab = Lab::new();
    lab.run(&["man", "share/man1"]).expect(0);
    for name in SUBCOMMANDS.map(|subcommand| format!("everseen-{subcommand}")) {
        let page = fs::read_to_string(lab.path(&format!("share/man1/{name}.1"))).expect("a page");
        assert!(
            page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"),
            "{name}"
        );
    }
    assert!(lab.path("share/man1/everseen.1").exists());
    // Again, over what is there.
    lab.run(&["man", "share/man1"]).expect(0);
    lab.write("file", b"");
    lab.run(&["man", "file"]).expect_error("file: ");
}

#[test]
fn the_command_alone_tells_the_first_steps() {
    let lab = Lab::new();
    let ran = lab.run(&[]);
    assert_eq!((ran.code, &ran.out[..]), (Some(2), &b""[..]));
    let lines: Vec<_> = ran.err.lines().collect();
    assert!(lines.len() <= 12, "{}", ran.err);
    let named = lines
        .iter()
        .filter_map(|line| line.strip_prefix("  everseen "));
    let named: Vec<_> = named.filter_map(|rest| rest.split(' ').next()).collect();
    assert_eq!(named, ["dedup", "check", "info", "plan"]);
    assert!(named.iter().all(|name| SUBCOMMANDS.contains(name)));
    // Its own example works.
    lab.write("list.txt", b"a\na\n");
    let example = ran
        .err
        .lines()
        .find_map(|line| line.strip_prefix("Try: everseen "));
    let example: Vec<_> = example.expect("an example").split(' ').collect();
    assert_eq!(lab.run(&example).expect(0), b"a\n");
}
