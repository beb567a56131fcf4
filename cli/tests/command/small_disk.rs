//! Disks that are full, or smaller than what a run would like to have: a file system in memory, mounted where nobody
//! else sees it.
#![cfg(target_os = "linux")]

use std::process::Command;

use crate::support::Lab;

/// Runs a script of `sh` in a folder that has so much room; `everseen` is the binary. `None` if this computer lets
/// nobody mount one.
fn on_disk(size: &str, script: &str) -> Option<String> {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("disk")).unwrap();
    let begin = format!(
        "mount -t tmpfs -o size={size} none disk && cd disk || exit 77
        everseen() {{ \"$EVERSEEN\" \"$@\"; }}\n"
    );
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c"])
        .arg(begin + script)
        .env("EVERSEEN", env!("CARGO_BIN_EXE_everseen"))
        .current_dir(lab.path(""))
        .output();
    let output = output.ok().filter(|output| {
        let told = String::from_utf8_lossy(&output.stderr);
        output.status.code() != Some(77) && !told.starts_with("unshare:")
    });
    let Some(output) = output else {
        eprintln!("skipped: no file system can be mounted here");
        return None;
    };
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    Some(said)
}

/// Whoever only reads needs no room, and a writer that has none says so.
#[test]
fn on_a_full_disk_nobody_dies() {
    let script = "
        everseen create a.ever --capacity 8M --fpr 0.01
        seq 100 | everseen add a.ever --buffer 1M || exit 1
        head -c 64M /dev/zero > fill 2>/dev/null
        seq 1000001 1003000 | everseen check a.ever > ../absent
        echo check $? $(wc -l < ../absent)
        everseen verify a.ever
        echo verify $?
        seq 1000 | everseen add a.ever --buffer 1M
        echo add $?
        # Room for side files, and for a part of the pages.
        truncate -s -3M fill
        seq 1000001 1300000 | everseen add a.ever --buffer 1M
        echo add more $?
        rm fill
        seq 1000001 1300000 | everseen add a.ever --buffer 1M
        seq 1000001 1300000 | everseen check a.ever > /dev/null
        echo again $?
        ls";
    let Some(said) = on_disk("16m", script) else {
        return;
    };
    let has = |line: &str| assert!(said.lines().any(|said| said == line), "{line}: {said}");
    has("verify 0");
    has("add 2");
    has("add more 2");
    has("again 0");
    has("check 1 0");
    assert_eq!(
        said.matches("no space left on the disk").count(),
        2,
        "{said}"
    );
}

/// A buffer of the usual size has no room there: a smaller one does as well, unless it was asked for.
#[test]
fn on_a_small_disk_the_buffer_is_small() {
    let script = "
        seq 3001 | everseen dedup a.ever > ../new || exit 1
        echo new $(wc -l < ../new)
        seq 3005 | everseen dedup a.ever > ../new || exit 1
        echo later $(wc -l < ../new)
        seq 3001 4000 | everseen add a.ever --buffer 64M
        echo large $?
        ls a.ever*";
    let Some(said) = on_disk("24m", script) else {
        return;
    };
    let has = |line: &str| assert!(said.lines().any(|said| said == line), "{line}: {said}");
    has("new 3001");
    has("later 4");
    has("large 2");
    let error = said.lines().find(|line| line.starts_with("everseen: "));
    let error = error.unwrap();
    for part in ["a.ever-shm.", " of 29360128 bytes", "`--buffer`"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}
