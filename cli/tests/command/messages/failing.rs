//! What runs say that can't go on: full stores, folders and disks, and others that take too long.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{Message, lab, placed};
use crate::support::distinct_lines;

/// What `--stats` says, without how long it took.
fn without_time(err: &str) -> String {
    let lines = err.lines().map(|line| match line.find(" seen, ") {
        Some(at) => &line[..at + " seen".len()],
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn a_full_store_is_named_with_the_line_it_had_no_room_for() {
    let lab = lab();
    let full = |place: &str, store: &str| {
        format!(
            "everseen: {place}: the store {store} is full: it was created for 50 keys and has all lines before this one; \
             create a larger one, or one without a capacity, which grows\n"
        )
    };
    let first = distinct_lines(20);
    lab.write("first", &first);

    // Both inputs begin with the same 20 lines: line 51 of the second is the first without room.
    let ran = lab.run(&["add", "small", "first", "urls.txt"]);
    assert_eq!(
        ran.err,
        format!("70 lines, 50 new\n{}", full("urls.txt:51", "small"))
    );
    assert_eq!(ran.code, Some(2));
    let info = crate::support::json(&lab.run(&["info", "--json", "small"]).expect(0));
    assert_eq!(info["keys"], 50);

    // What was printed is what is remembered.
    let ran = lab.run(&["dedup", "--stats", "other", "first", "urls.txt"]);
    assert_eq!(
        without_time(&ran.err),
        format!(
            "70 lines, 50 new, 20 seen\n{}",
            full("urls.txt:51", "other")
        )
    );
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.out, distinct_lines(50));
    let known = lab.run(&["check", "other", "urls.txt"]).expect(0);
    assert_eq!(known, distinct_lines(50));

    // Dropped lines count, for they are in the file.
    let mixed = [
        b"no url\n",
        &*distinct_lines(30),
        b"nor this\n",
        &*distinct_lines(60),
    ]
    .concat();
    let args = ["create", "third", "--capacity", "50", "--url"];
    lab.run(&args).expect(0);
    let args = ["add", "third", "--url", "--not-url", "drop"];
    let ran = lab.run_on(&args, &mixed);
    let last = ran.err.lines().last().map(|line| format!("{line}\n"));
    assert_eq!(last, Some(full("standard input:83", "third")));
}

/// A folder that an ordinary user may not write to.
#[test]
fn a_folder_that_can_t_be_written_is_named() {
    let lab = lab();
    let folder = lab.path("folder");
    let open = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    };
    open(folder.parent().expect("a folder"), 0o777);
    open(&folder, 0o555);
    for args in [
        &["create", "folder/new"][..],
        &["dedup", "folder/new", "urls.txt"],
        &["snapshot", "copy", "folder/new"],
        &["union", "folder/new", "copy"],
    ] {
        let mut command = lab.command(args);
        if rustix::process::geteuid().is_root() {
            // The store is theirs, the folder not.
            let _ = std::os::unix::fs::chown(lab.path("copy"), Some(65_534), Some(65_534));
            command.uid(65_534).gid(65_534);
        }
        let ran = match command.output() {
            Ok(ran) => ran,
            Err(error) => {
                println!("skipped: the binary is not for others: {error}");
                return;
            }
        };
        assert_eq!(
            String::from_utf8_lossy(&ran.stderr),
            "everseen: could not create a file in folder: permission denied\n",
            "{args:?}"
        );
        assert_eq!(ran.status.code(), Some(2), "{args:?}");
    }
    open(&folder, 0o755);
}

/// Where files may not grow beyond 4 MiB, the pages of a larger store can't be written.
#[test]
fn a_write_that_fails_says_of_what() {
    let lab = lab();
    // One line in 4096 would be sampled, and that section is written before the pages.
    let args = ["create", "large", "--capacity", "10M", "--no-sample"];
    lab.run(&args).expect(0);
    let ran = Command::new("sh")
        .current_dir(lab.path("."))
        .args(["-c", "trap '' XFSZ; ulimit -f 8192; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_everseen"))
        .args(["add", "large", "urls.txt", "--buffer", "256K"])
        .output()
        .expect("a shell");
    assert_eq!(
        String::from_utf8_lossy(&ran.stderr),
        placed(
            &lab,
            "everseen: could not write pages of HERE/large: File too large (os error 27); what was committed is safe, \
             and the next command on the store recovers it\n"
        )
    );
    assert_eq!(ran.status.code(), Some(2));
}

/// Somebody else makes the same file, and takes his time.
#[cfg(target_os = "linux")]
#[test]
fn who_waits_too_long_is_told_how_to_wait_longer() {
    use everseen::testing::storage::HeldByte;
    let lab = lab();
    lab.write("new-part", b"EVERSEEN");
    // The lock on opening and closing, which its creator holds.
    let held = HeldByte::take(&lab.path("new-part"), 1 << 62);
    let held = held.expect("locks").expect("nobody else has it");
    let args = ["snapshot", "grows", "new", "--timeout", "0"];
    lab.run(&args).expect_message(&placed(
        &lab,
        "HERE/new-part: waited too long for another process that creates the same file; try again, or wait longer \
         (`--timeout`)",
    ));
    drop(held);
    lab.run(&args).expect(0);
}
