//! Where a store is to lie: locked folders, empty files, mounts that can only be read, folders that can't be listed.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::support::Lab;

/// As `flock -n folder everseen dedup folder/new.ever` runs it.
#[test]
fn a_store_is_made_in_a_folder_that_another_program_has_locked() {
    let lab = Lab::new();
    let folder = File::open(lab.path(".")).expect("a folder");
    folder.try_lock().expect("nobody else has it");
    let ran = lab.run_on(&["dedup", "new.ever"], b"a\na\n");
    assert_eq!(ran.expect(0), b"a\n");
    lab.run(&["snapshot", "new.ever", "copy.ever"]).expect(0);
}

/// As `mktemp` makes it, and `flock s.ever everseen dedup s.ever`.
#[test]
fn an_empty_file_becomes_a_store_that_keeps_its_mode_and_its_lock() {
    let lab = Lab::new();
    for make in [&["dedup", "-q", "s"][..], &["create", "s"]] {
        lab.write("s", b"");
        let file = File::open(lab.path("s")).expect("just written");
        file.set_permissions(PermissionsExt::from_mode(0o600))
            .expect("ours");
        file.try_lock().expect("nobody else has it");
        let before = file.metadata().expect("open");
        lab.run(&["check", "s"])
            .expect_error("is an empty file, not a store yet");
        lab.run_on(make, b"").expect(0);
        assert_eq!(lab.run_on(&["dedup", "s"], b"a\na\n").expect(0), b"a\n");
        let after = fs::metadata(lab.path("s")).expect("there");
        assert_eq!(
            (after.ino(), after.permissions().mode() & 0o777),
            (before.ino(), 0o600),
            "{make:?}"
        );
        assert!(after.len() > 0);
        fs::remove_file(lab.path("s")).expect("ours");
    }
}

/// A job that takes keys out, or adds to a store that should be there, makes none: a name may be mistyped.
#[test]
fn what_makes_no_store_says_of_an_empty_file_what_does() {
    let lab = Lab::new();
    lab.write("empty", b"");
    let here = lab
        .path(".")
        .canonicalize()
        .expect("a folder")
        .join("empty");
    let here = here.display();
    for command in ["add", "remove", "exempt", "check", "info", "snapshot"] {
        let more = if command == "snapshot" {
            &["copy"][..]
        } else {
            &[]
        };
        lab.run_on(&[&[command, "empty"], more].concat(), b"a\n")
            .expect_error(&format!(
                "everseen: {here}: is an empty file, not a store yet; make it one with `everseen create {here}`"
            ));
    }
    assert_eq!(fs::read(lab.path("empty")).expect("there"), b"");
}

#[test]
fn a_name_that_leaves_no_room_for_side_files_is_refused() {
    let lab = Lab::new();
    for length in [245, 252, 255] {
        let name = "n".repeat(length);
        lab.run_on(&["dedup", &name], b"a\n")
            .expect_error("the name is too long; give the store a shorter name");
        assert!(!lab.path(&name).exists(), "{length}");
    }
    lab.run_on(&["dedup", &"n".repeat(240)], b"a\n").expect(0);
}

/// Runs a script of `sh` where file systems may be mounted; `everseen` is the binary. `None` if this computer lets nobody
/// do so.
fn where_mounting_is_allowed(lab: &Lab, script: &str) -> Option<String> {
    let begin = "mount -t tmpfs none disk || exit 77
        everseen() { \"$EVERSEEN\" \"$@\" 2>&1; }\n";
    fs::create_dir(lab.path("disk")).expect("a folder");
    let ran = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c"])
        .arg(begin.to_owned() + script)
        .env("EVERSEEN", env!("CARGO_BIN_EXE_everseen"))
        .current_dir(lab.path("."))
        .output();
    // Whatever else fails is what the script is there to show.
    let is_refused = |ran: &std::process::Output| {
        ran.status.code() == Some(77) || ran.stderr.starts_with(b"unshare:")
    };
    let ran = ran.ok().filter(|ran| !is_refused(ran));
    match &ran {
        Some(ran) => assert_eq!(ran.status.code(), Some(0), "{ran:?}"),
        None => eprintln!("skipped: no file system can be mounted here"),
    }
    ran.map(|ran| String::from_utf8(ran.stdout).expect("text"))
}

#[test]
fn a_mount_that_can_only_be_read_is_called_so() {
    let lab = Lab::new();
    let script = "
        printf 'a\\n' | everseen dedup disk/s > /dev/null
        mount -o remount,ro disk
        printf 'a\\nb\\n' | everseen check disk/s; echo check $?
        for command in 'dedup disk/s' 'dedup disk/new' 'create disk/new' 'snapshot disk/s disk/copy'; do
            everseen $command < /dev/null; echo status $?
        done
        everseen union all disk/s; echo union $?";
    let Some(said) = where_mounting_is_allowed(&lab, script) else {
        return;
    };
    assert!(said.contains("a\ncheck 0\n"), "{said}");
    assert_eq!(
        said.matches("the disk can only be read\nstatus 2\n")
            .count(),
        4,
        "{said}"
    );
    assert!(said.contains("union 0\n"), "{said}");
    assert!(!said.contains("permission denied"), "{said}");
}

/// A run that is killed leaves a log. What others see has been acknowledged, since the store is not transactional.
const KILLED_RUN: &str = "
            mkfifo lines
            \"$EVERSEEN\" add disk/s < lines &
            exec 3> lines
            seq 1000 >&3
            until [ $(seq 1000 | everseen check disk/s | wc -l) = 1000 ]; do kill -0 $! || exit 1; done
            kill -9 $!; wait $! 2> /dev/null; exec 3>&-
            rm -f disk/s-shm*
            ls disk/s-log.* > /dev/null || exit 1";

/// A copy from there is the way to go on elsewhere.
#[test]
fn a_store_on_a_mount_that_can_only_be_read_is_copied_with_the_keys_of_its_log() {
    for ending in ["", KILLED_RUN] {
        let lab = Lab::new();
        let script = format!(
            "
            everseen create --no-transactional disk/s > /dev/null
            seq 2001 2100 | everseen add disk/s
            {ending}
            mount -o remount,ro disk
            everseen snapshot disk/s copy; echo status $?
            seq 2001 2100 | everseen check copy | wc -l
            seq 1000 | everseen check copy | wc -l
            ls disk | grep -c .; everseen verify copy; echo verify $?"
        );
        let Some(said) = where_mounting_is_allowed(&lab, &script) else {
            return;
        };
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[1], "status 0", "{said}");
        assert_eq!(lines[2], "100", "{said}");
        let (left, files) = match ending {
            "" => ("0", "1"),
            _ => ("1000", "2"),
        };
        assert_eq!((lines[3], lines[4]), (left, files), "{said}");
        assert_eq!(lines.last(), Some(&"verify 0"), "{said}");
        let keys = if left == "0" {
            "100 keys"
        } else {
            "1,100 keys"
        };
        assert!(lines[0].contains(keys), "{said}");
    }
}

/// Another user may make files in such a folder, but not list it.
#[test]
fn a_folder_that_can_t_be_listed_is_called_so() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only the administrator can be another user");
        return;
    }
    let lab = Lab::new();
    fs::set_permissions(lab.path("."), PermissionsExt::from_mode(0o755)).expect("ours");
    fs::create_dir(lab.path("folder")).expect("made");
    fs::set_permissions(lab.path("folder"), PermissionsExt::from_mode(0o733)).expect("ours");
    let mut command = lab.command(&["dedup", "folder/s"]);
    let ran = command.uid(65534).gid(65534).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    if said.is_empty() && ran.status.code() != Some(2) {
        panic!("{ran:?}");
    }
    assert!(said.contains("permission denied"), "{said}");
    assert_eq!(fs::read_dir(lab.path("folder")).expect("ours").count(), 0);
}

/// Another user's store: its folder and the file may be read.
#[test]
fn a_store_that_belongs_to_another_user_is_copied() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only the administrator can be another user");
        return;
    }
    for mode in [0o644, 0o666] {
        let lab = Lab::new();
        fs::set_permissions(lab.path("."), PermissionsExt::from_mode(0o755)).expect("ours");
        for (folder, mode) in [("theirs", 0o755), ("mine", 0o777)] {
            fs::create_dir(lab.path(folder)).expect("made");
            fs::set_permissions(lab.path(folder), PermissionsExt::from_mode(mode)).expect("ours");
        }
        lab.run_on(&["dedup", "-q", "theirs/s"], b"a\n").expect(0);
        fs::set_permissions(lab.path("theirs/s"), PermissionsExt::from_mode(mode)).expect("ours");
        let mut command = lab.command(&["snapshot", "theirs/s", "mine/copy"]);
        let ran = command.uid(65534).gid(65534).output().expect("it runs");
        assert_eq!(ran.status.code(), Some(0), "{mode:o}: {ran:?}");
        assert_eq!(
            lab.run_on(&["check", "mine/copy"], b"a\n").expect(0),
            b"a\n"
        );
        assert_eq!(fs::read_dir(lab.path("theirs")).expect("ours").count(), 1);
    }
}
