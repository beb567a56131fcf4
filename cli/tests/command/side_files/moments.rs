//! A store file that was restored from an older copy beside the log of a killed process: every command says the same, and
//! `repair` leads out of it.

use std::fs;

use crate::support::{Lab, distinct_lines, json};

/// A store that was killed with 4,000 lines, 1,000 of which are in a copy from before, which was put back.
fn restored() -> Lab {
    let lab = Lab::new();
    let first = distinct_lines(1_000);
    lab.run_on(&["dedup", "store"], &first).expect(0);
    fs::copy(lab.path("store"), lab.path("backup")).expect("a copy");
    lab.run_on(&["dedup", "store"], &distinct_lines(2_000))
        .expect(0);
    let store = everseen::testing::Options::new()
        .open(lab.path("store"))
        .expect("a store");
    for line in distinct_lines(4_000)
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        store.insert(line).expect("room");
    }
    store.commit().expect("room");
    // What a kill leaves.
    for (name, left) in [("store", "file"), ("store-log.3", "log")] {
        fs::copy(lab.path(name), lab.path(left)).expect("a copy");
    }
    store.close().expect("room");
    fs::copy(lab.path("log"), lab.path("store-log.3")).expect("a copy");
    fs::copy(lab.path("backup"), lab.path("store")).expect("a copy");
    lab
}

#[test]
fn every_command_names_an_older_file_beside_a_newer_log() {
    let lab = restored();
    lab.write("urls", &distinct_lines(10));
    let folder = lab.path(".").canonicalize().expect("a folder");
    let said = format!(
        "everseen: {folder}/store-log.3: is a log of generation 3, and the store file {folder}/store is older, of \
         generation 2: it was replaced by a copy of another moment; put the file back that belongs to the log, or go on \
         without the log's keys: move it away, or have `everseen repair` set it aside\n",
        folder = folder.display()
    );
    for args in [
        &["check", "store", "urls"][..],
        &["info", "store"],
        &["verify", "store"],
        &["dedup", "store", "urls"],
        &["add", "store", "urls"],
        &["checkpoint", "store"],
        &["snapshot", "store", "copy"],
        &["union", "both", "store", "backup"],
    ] {
        let ran = lab.run(args);
        assert_eq!((ran.code, &*ran.err), (Some(2), &*said), "{args:?}");
        assert_eq!(ran.out, b"", "{args:?}");
    }
    // The way back.
    fs::copy(lab.path("file"), lab.path("store")).expect("a copy");
    let seen = lab
        .run_on(&["check", "store"], &distinct_lines(4_000))
        .expect(0);
    assert!(seen == distinct_lines(4_000));
}

#[test]
fn repair_sets_the_log_aside_and_says_so() {
    let lab = restored();
    let folder = lab.path(".").canonicalize().expect("a folder");
    let aside = format!("{}/store-log.3-aside", folder.display());
    let text = lab.run(&["repair", "store"]).expect(0);
    assert_eq!(
        String::from_utf8_lossy(&text),
        format!(
            "{aside} was set aside: it does not fit the store file, and its keys are in no store now\n"
        )
    );
    assert!(fs::read(&aside).expect("a log") == fs::read(lab.path("log")).expect("a log"));
    let seen = lab
        .run_on(&["check", "store"], &distinct_lines(4_000))
        .expect(0);
    assert!(seen == distinct_lines(1_000));

    let lab = restored();
    let report = json(&lab.run(&["repair", "--json", "store"]).expect(0));
    let folder = lab.path(".").canonicalize().expect("a folder");
    let aside = format!("{}/store-log.3-aside", folder.display());
    assert_eq!(report["set_aside"], serde_json::json!([aside]));
    assert_eq!(report["whole"], false);
}
