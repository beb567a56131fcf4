//! Damaged stores on the command line: what `--on-damage`, `info`, `verify` and `repair` make of them.

use std::fs;

use crate::support::{Lab, distinct_lines, json};

/// A store of 5,000 lines with one bad page of its layer. A given seed, for the page to have keys of its own whenever it
/// is asked.
fn damaged() -> Lab {
    let lab = Lab::new();
    let create = ["create", "store", "--kind", "scalable"];
    // Without a sample, pages are at the end of the file.
    let placed = ["--no-sample", "--seed", &"5e".repeat(32)];
    lab.run(&[&create[..], &placed].concat()).expect(0);
    lab.run_on(&["dedup", "store"], &distinct_lines(5_000))
        .expect(0);
    flip(&lab, -2_000);
    lab
}

/// Flips a bit, from the front or from the end.
fn flip(lab: &Lab, at: i64) {
    let mut bytes = fs::read(lab.path("store")).expect("the store");
    let at = match at < 0 {
        true => bytes.len() as i64 + at,
        false => at,
    };
    bytes[at as usize] ^= 1;
    lab.write("store", &bytes);
}

#[test]
fn a_damaged_page_is_an_error_unless_told_otherwise() {
    let lines = distinct_lines(5_000);
    let lab = damaged();
    lab.run_on(&["dedup", "store"], &lines)
        .expect_error("everseen repair");
    lab.run_on(&["check", "store"], &lines)
        .expect_error("everseen repair");
    let count = |out: Vec<u8>| out.iter().filter(|byte| **byte == b'\n').count();
    let args = |command| [command, "store", "--on-damage"];
    let seen = lab.run_on(&[&args("check")[..], &["seen"]].concat(), &lines);
    assert_eq!(count(seen.expect(0)), 5_000);
    let seen = lab.run_on(&[&args("check")[..], &["never-seen"]].concat(), &lines);
    let seen = count(seen.expect(0));
    assert!(seen < 5_000 && seen > 4_000, "{seen}");
    let new = lab.run_on(&[&args("dedup")[..], &["never-seen"]].concat(), &lines);
    assert_eq!(count(new.expect(0)), 5_000 - seen);
    // The checkpoint at its end has written the page anew.
    lab.run(&["verify", "store"]).expect(0);
    assert_eq!(
        count(lab.run_on(&["check", "store"], &lines).expect(0)),
        5_000
    );
}

#[test]
fn info_tells_of_damage_and_recovery() {
    let lab = damaged();
    let info = json(&lab.run(&["info", "--json", "store"]).expect(0));
    assert!(info["damage"]["pages"].is_null() && info["damage"]["superblock"].is_null());
    assert_eq!(info["recovery"]["logs"], 0);
    assert_eq!(info["recovery"]["in_use"], false);
    let info = json(&lab.run(&["info", "--json", "--pages", "store"]).expect(0));
    assert_eq!(info["damage"]["pages"], 1);
    let text = lab.run(&["info", "store"]).expect(0);
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("damage      pages not looked at"), "{text}");
    let text = lab.run(&["info", "--pages", "store"]).expect(0);
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("damage      1 page "), "{text}");
}

#[test]
fn repair_says_what_became_of_the_keys() {
    for (policy, fate) in [
        ("never-seen", " keys lost\n"),
        ("seen", " keys count as seen\n"),
    ] {
        let lab = damaged();
        let text = lab.run(&["repair", "--as", policy, "store"]).expect(0);
        let text = String::from_utf8(text).expect("text");
        assert!(
            text.starts_with("1 page repaired:\n  layer 0, page "),
            "{text}"
        );
        assert!(text.contains(": about ") && text.ends_with(fate), "{text}");
    }
}

#[test]
fn repair_makes_a_store_whole() {
    for (policy, all) in [("never-seen", false), ("seen", true)] {
        let lab = damaged();
        lab.run(&["verify", "store"]).expect(1);
        // A byte of the header as well.
        flip(&lab, 100);
        lab.run(&["info", "store"]).expect_error("header");
        let report = lab.run(&["repair", "--json", "--as", policy, "store"]);
        let report = json(&report.expect(0));
        assert_eq!(report["whole"], false);
        assert_eq!(report["header"], true);
        assert_eq!(report["pages"].as_array().map(Vec::len), Some(1));
        lab.run(&["verify", "store"]).expect(0);
        let again = lab.run(&["repair", "store"]).expect(0);
        assert_eq!(again, b"nothing is damaged\n");
        let lines = distinct_lines(5_000);
        let seen = lab.run_on(&["check", "store"], &lines).expect(0);
        assert_eq!(seen == lines, all);
    }
}

#[test]
fn repair_of_what_can_not_be_repaired() {
    let lab = Lab::new();
    lab.write("text", b"this is not a store\n");
    lab.run(&["repair", "text"]).expect_error("text");
    lab.run(&["repair", "missing"])
        .expect_error("no such store");
}

/// Of the kind that `dedup` makes.
#[test]
fn repair_says_which_pages_of_fingerprints_it_gives_up() {
    let lab = Lab::new();
    lab.run(&["create", "store", "--no-sample"]).expect(0);
    let lines = distinct_lines(5_000);
    lab.run_on(&["dedup", "store"], &lines).expect(0);
    // A page of fingerprints.
    flip(&lab, 34 * 4096 + 2_000);
    let found = lab.run(&["verify", "store"]);
    assert_eq!(found.code, Some(1), "{}", found.err);
    lab.run(&["repair", "--as", "seen", "store"])
        .expect_error("--as seen: a store of kind fingerprint lists its keys");
    let copy = fs::read(lab.path("store")).expect("the store");
    lab.write("copy", &copy);
    let text = lab.run(&["repair", "store"]).expect(0);
    let text = String::from_utf8(text).expect("text");
    assert!(
        text.starts_with("1 damaged page given up:\n  page "),
        "{text}"
    );
    assert!(
        text.contains(": about ") && text.ends_with(" keys lost\n"),
        "{text}"
    );
    let report = json(&lab.run(&["repair", "--json", "copy"]).expect(0));
    let segments = report["segments"].as_array().expect("a list");
    assert_eq!(segments.len(), 1);
    assert!(segments[0]["keys"].as_u64() > Some(0) && segments[0]["page"].as_u64() > Some(31));
    lab.run(&["verify", "store"]).expect(0);
}
