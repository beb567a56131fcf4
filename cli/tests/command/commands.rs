//! The commands that ask the library one question, and what all commands have in common.

use std::fs;
use std::io;

use crate::support::{Lab, assert_fields, distinct_lines, json};
use serde_json::Value;

#[test]
fn create_tells_what_it_made_and_never_overwrites() {
    let lab = Lab::new();
    let ran = lab.run(&["create", "store", "--capacity", "1e4", "--fpr", "1e-4"]);
    assert!(
        ran.err
            .starts_with("created store: bloom, transactional, 10,000 keys, "),
        "{}",
        ran.err
    );
    assert_eq!(ran.err.lines().count(), 1);
    assert_eq!(ran.expect(0), b"");

    let before = fs::read(lab.path("store")).expect("the store");
    lab.run(&["create", "store"])
        .expect_error("store: already exists");
    assert!(fs::read(lab.path("store")).expect("the store") == before);
}

#[test]
fn create_takes_every_option() {
    let seed = "0123456789abcdef".repeat(4);
    for args in [
        &["--kind", "bloom", "--capacity", "50_000"][..],
        &["--kind", "scalable"],
        &["--kind", "scalable", "--fpr", "0.001"],
        &["--kind", "fingerprint"],
        &["--grows-to", "1e9"],
        &["--fpr", "0.001"],
        &["--capacity", "10k", "--bits-per-key", "12.5"],
        &["--hash", "highway"],
        &["--hash", "xxh3"],
        &["--hash", "murmur3"],
        &["--seed", &seed],
    ] {
        let lab = Lab::new();
        lab.run(&[&["create", "store"], args].concat()).expect(0);
        assert_eq!(
            lab.run_on(&["dedup", "store"], b"a\na\n").expect(0),
            b"a\n",
            "{args:?}"
        );
    }
}

#[test]
fn options_that_make_no_sense() {
    let lab = Lab::new();
    for args in [
        &["create", "store", "--capacity", "0"][..],
        &["create", "store", "--capacity", "1.5"],
        &["create", "store", "--capacity", "-5"],
        &["create", "store", "--capacity", "1e20"],
        &["create", "store", "--capacity", "ten"],
        &["create", "store", "--fpr", "0"],
        &["create", "store", "--fpr", "1"],
        &["create", "store", "--fpr", "nan"],
        &[
            "create",
            "store",
            "--capacity",
            "1k",
            "--bits-per-key",
            "inf",
        ],
        &[
            "create",
            "store",
            "--capacity",
            "1k",
            "--bits-per-key",
            "10",
            "--fpr",
            "0.1",
        ],
        &["create", "store", "--kind", "cuckoo"],
        &["create", "store", "--hash", "md5"],
        &["create", "store", "--seed", "00"],
        &["create", "missing/store"],
        &["create"],
        &["no-such-command"],
        &[],
    ] {
        let ran = lab.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        assert!(!ran.err.is_empty(), "{args:?}");
        assert!(!lab.path("store").exists(), "{args:?}");
    }
}

#[test]
fn info_as_json() {
    let lab = Lab::new();
    let dedup = ["dedup", "--kind", "scalable", "store"];
    lab.run_on(&dedup, b"a\nb\n").expect(0);
    let info = json(&lab.run(&["info", "--json", "store"]).expect(0));
    assert_eq!(info["kind"], "scalable");
    assert_eq!(info["hash"], "highway");
    assert_eq!(info["capacity"], Value::Null);
    assert_eq!(info["fpr_target"], 1e-6);
    assert_eq!(info["keys"], 2);
    assert_eq!(info["estimate"], Value::Null);
    let left = info["key_limit"].as_u64().zip(info["keys_left"].as_u64());
    assert!(left.is_some_and(|(limit, left)| limit - left == 2));
    assert_eq!(info["transactional"], true);
    assert_eq!(info["store_id"].as_str().map(str::len), Some(32));
    let fields = [
        "fpr_now",
        "bytes",
        "bits_per_key",
        "generation",
        "log_bytes",
        "created",
    ];
    assert_fields(&info, &fields);
    let layers = info["layers"].as_array().expect("a list");
    assert_eq!(layers.len(), 1);
    layers.iter().for_each(|layer| {
        assert_fields(
            layer,
            &["capacity", "keys", "pages", "bits", "k", "fill", "fpr"],
        )
    });
    let commits = info["commits"].as_array().expect("a list");
    assert!(!commits.is_empty());
    commits
        .iter()
        .for_each(|commit| assert_fields(commit, &["writer", "seq", "tag", "tag_hex"]));

    lab.run(&[
        "create",
        "fixed",
        "--capacity",
        "5k",
        "--fpr",
        "0.01",
        "--hash",
        "xxh3",
        "--no-transactional",
    ])
    .expect(0);
    let info = json(&lab.run(&["info", "fixed", "--json"]).expect(0));
    assert_eq!(info["kind"], "bloom");
    assert_eq!(info["hash"], "xxh3");
    assert_eq!(info["capacity"], 5_000);
    assert_eq!(info["fpr_target"], 0.01);
    assert_eq!(info["keys"], 0);
    assert_eq!(info["transactional"], false);
}

#[test]
fn info_for_people() {
    let lab = Lab::new();
    lab.run(&["create", "store", "--capacity", "12345"])
        .expect(0);
    let text = String::from_utf8(lab.run(&["info", "store"]).expect(0)).expect("text");
    for part in [
        "kind        bloom, transactional\n",
        "capacity    12,345 keys\n",
        "hash        highway\n",
        "layer",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn verify_of_a_sound_store() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "store"], b"a\nb\n").expect(0);
    let report = json(&lab.run(&["verify", "--json", "store"]).expect(0));
    assert_eq!(report["ok"], true);
    assert!(report["pages"].as_u64().is_some());
    assert_eq!(report["damaged"], Value::Array(Vec::new()));
    let text = String::from_utf8(lab.run(&["verify", "store"]).expect(0)).expect("text");
    assert!(text.ends_with(" pages, no damage\n"), "{text}");
}

#[test]
fn verify_names_a_damaged_page() {
    let lab = Lab::new();
    lab.run(&["create", "store", "--kind", "scalable", "--no-sample"])
        .expect(0);
    lab.run_on(&["dedup", "store"], &distinct_lines(5_000))
        .expect(0);
    let mut bytes = fs::read(lab.path("store")).expect("the store");
    // Without a sample, pages are at the end of the file.
    let at = bytes.len() - 2_000;
    bytes[at] ^= 1;
    lab.write("store", &bytes);

    let report = json(&lab.run(&["verify", "--json", "store"]).expect(1));
    assert_eq!(report["ok"], false);
    let damaged = report["damaged"].as_array().expect("a list");
    assert_eq!(damaged.len(), 1);
    assert_eq!(damaged[0]["layer"], 0);
    assert_fields(&damaged[0], &["page", "keys"]);
    let text = String::from_utf8(lab.run(&["verify", "store"]).expect(1)).expect("text");
    assert!(text.contains(" 1 damaged:\n  layer 0, page "), "{text}");
}

#[test]
fn what_is_no_store_is_an_error() {
    let lab = Lab::new();
    lab.write("text", b"this is not a store\n");
    lab.write("empty", b"");
    for command in ["info", "verify", "checkpoint", "check", "add", "dedup"] {
        lab.run(&[command, "text"]).expect_error("text");
        // An empty file becomes a store where a missing one would: `surroundings::places`.
        if command != "dedup" {
            lab.run(&[command, "empty"]).expect_error("empty");
            lab.run(&[command, "missing"]).expect_error("no such store");
        }
    }
    assert_eq!(
        fs::read(lab.path("text")).expect("the file"),
        b"this is not a store\n"
    );
}

#[test]
fn checkpoint_leaves_everything_in_one_file() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "store"], b"a\nb\n").expect(0);
    assert_eq!(
        lab.run(&["checkpoint", "store", "--buffer", "8M"])
            .expect(0),
        b""
    );
    fs::copy(lab.path("store"), lab.path("copy")).expect("a copy");
    assert_eq!(
        lab.run_on(&["check", "copy"], b"b\nc\na\n").expect(0),
        b"b\na\n"
    );
}

#[test]
fn help_shows_examples() {
    let lab = Lab::new();
    let overview = String::from_utf8(lab.run(&["help"]).expect(0)).expect("text");
    for command in [
        "create",
        "dedup",
        "add",
        "check",
        "info",
        "verify",
        "plan",
        "checkpoint",
    ] {
        assert!(overview.contains(command), "{overview}");
        let help = String::from_utf8(lab.run(&[command, "--help"]).expect(0)).expect("text");
        assert!(
            help.contains("Examples:") && help.contains(&format!("everseen {command}")),
            "{help}"
        );
        assert_eq!(
            String::from_utf8(lab.run(&["help", command]).expect(0)).expect("text"),
            help
        );
    }
}

#[test]
fn nobody_reading_is_no_error() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "store"], b"a\n").expect(0);
    lab.write("input", b"a\n");
    for args in [
        &["info", "store"][..],
        &["info", "--json", "store"],
        &["verify", "store"],
        &["plan", "--capacity", "1k", "--fpr", "0.1"],
        &["check", "store", "input"],
        &["help"],
        &["dedup", "--help"],
    ] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let ran = lab
            .command(args)
            .stdout(writer)
            .output()
            .expect("the binary runs");
        assert_eq!(
            ran.status.code(),
            Some(0),
            "{args:?}: {}",
            ran.stderr.escape_ascii()
        );
        assert_eq!(ran.stderr, b"", "{args:?}");
    }
}

/// `/dev/full` refuses every byte.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let lab = Lab::new();
    lab.run_on(&["dedup", "store"], b"a\n").expect(0);
    lab.write("input", b"a\n");
    for args in [
        &["info", "store"][..],
        &["verify", "store"],
        &["check", "store", "input"],
    ] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it");
        let ran = lab
            .command(args)
            .stdout(full)
            .output()
            .expect("the binary runs");
        assert_eq!(ran.status.code(), Some(2), "{args:?}");
    }
}
