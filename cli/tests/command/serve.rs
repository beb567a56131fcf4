//! `everseen serve` hands over to the server's own program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::support::Lab;

/// Copies a program in another process. Had this one a file open to write it, a child of another test would have so as well,
/// until it is a program of its own, and meanwhile the system refuses to run the copy.
fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let mut cp = Command::new("cp");
    let status = cp.args([from.as_ref(), to.as_ref()]).status();
    assert!(status.expect("a run").success());
}

/// A copy of the command in a folder of its own, where the server may lie beside it or not.
fn copied(lab: &Lab) -> Command {
    fs::create_dir(lab.path("bin")).expect("a folder");
    copy(env!("CARGO_BIN_EXE_everseen"), lab.path("bin/everseen"));
    let mut command = Command::new(lab.path("bin/everseen"));
    command.env("PATH", lab.path("path"));
    command
}

fn server(lab: &Lab, folder: &str, name: &str) {
    fs::create_dir_all(lab.path(folder)).expect("a folder");
    let (text, script) = (
        lab.path("text"),
        lab.path(&format!("{folder}/everseen-server")),
    );
    fs::write(&text, format!("#!/bin/sh\necho \"{name} $*\"\nexit 7\n")).expect("a script");
    copy(&text, &script);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a program");
}

#[test]
fn the_server_beside_the_command_gets_all_arguments() {
    let lab = Lab::new();
    let mut command = copied(&lab);
    server(&lab, "path", "on the PATH");
    command.args(["serve", "--dir", "a", "--help"]);
    for (folder, name) in [("path", "on the PATH"), ("bin", "beside")] {
        server(&lab, folder, name);
        let output = command.output().expect("a run");
        assert_eq!(output.status.code(), Some(7));
        let expected = format!("{name} --dir a --help\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}

#[test]
fn where_there_is_no_server_it_says_so() {
    let lab = Lab::new();
    let output = copied(&lab).arg("serve").output().expect("a run");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("cargo install everseen-server"), "{text}");
}
