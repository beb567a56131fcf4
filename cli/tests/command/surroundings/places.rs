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
