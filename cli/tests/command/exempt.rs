//! `exempt`: lines that a store takes for seen and never saw.

use std::fs;
use std::io::{BufRead, BufReader, Write};

use crate::support::{Lab, distinct_lines};

fn absent(count: usize) -> Vec<u8> {
    let lines = (0..count).map(|number| format!("https://nowhere.example/{number}\n"));
    lines.collect::<String>().into_bytes()
}

#[test]
fn what_is_exempt_is_not_seen_until_it_is_added() {
    let lab = Lab::new();
    let create = ["create", "store", "--capacity", "4000", "--fpr", "0.1"];
    lab.run(&create).expect(0);
    lab.run_on(&["add", "store"], &distinct_lines(3500))
        .expect(0);
    let wrong = lab.run_on(&["check", "store"], &absent(20_000)).expect(0);
    let count = wrong.split_inclusive(|byte| *byte == b'\n').count();
    assert!(count > 100, "{count}");
    let info = lab.run(&["info", "store", "--json"]).expect(0);
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    assert_eq!(info["exempt"], 0);
    let ran = lab.run_on(&["exempt", "store"], &wrong);
    let told = format!("{count} lines, {count} exempt from now on");
    assert!(
        ran.err.replace(',', "").contains(&told.replace(',', "")),
        "{}",
        ran.err
    );
    assert!(ran.expect(0).is_empty());
    lab.run_on(&["check", "store"], &absent(20_000)).expect(1);
    lab.run_on(&["check", "-v", "store"], &distinct_lines(3000))
        .expect(1);
    let again = lab.run_on(&["exempt", "store", "-"], &wrong);
    assert!(again.err.contains("exempt before"), "{}", again.err);
    again.expect(0);
    let info = lab.run(&["info", "store", "--json"]).expect(0);
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    assert_eq!(info["exempt"], count);
    let info = String::from_utf8(lab.run(&["info", "store"]).expect(0)).unwrap();
    assert!(info.contains("known never to have been inserted"), "{info}");
    lab.run(&["verify", "store"]).expect(0);
    // Added for real.
    let line = wrong.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    lab.run_on(&["add", "store"], line).expect(0);
    assert_eq!(lab.run_on(&["check", "store"], &wrong).expect(0), line);
}

#[test]
fn items_may_end_with_nul_or_be_urls() {
    let lab = Lab::new();
    lab.bare_store("store", &everseen::testing::Options::new().capacity(1000));
    lab.run_on(&["exempt", "-0", "store"], b"a\0b\0b").expect(0);
    let urls = b"HTTP://Example.org:80/a#top\nhttp://example.org/a\n";
    let ran = lab.run_on(&["exempt", "--url", "store"], urls);
    assert!(ran.err.contains("2 lines, 1 exempt"), "{}", ran.err);
    ran.expect(0);
    let info = lab.run(&["info", "store", "--json"]).expect(0);
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    assert_eq!(info["exempt"], 3);
    lab.run(&["exempt", "none"]).expect_error("no such store");
}

#[test]
fn a_damaged_section_is_named_and_given_up() {
    let lab = Lab::new();
    lab.run(&["create", "store", "--capacity", "1000"])
        .expect(0);
    lab.run_on(&["exempt", "store"], &absent(100)).expect(0);
    let mut file = fs::read(lab.path("store")).unwrap();
    let last = file.len() - 4096;
    file[last + 100] ^= 1;
    lab.write("store", &file);
    let verified = lab.run(&["verify", "store"]);
    let out = String::from_utf8(verified.expect(1)).unwrap();
    assert!(out.contains("the section `exempt` is damaged"), "{out}");
    let json = lab.run(&["verify", "--json", "store"]).expect(1);
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&json["ok"], json["sections"].as_array().unwrap().len()),
        (&false.into(), 1)
    );
    let out = lab.run(&["repair", "store"]).expect(0);
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("exemptions were given up: 100 keys"), "{out}");
    lab.run(&["verify", "store"]).expect(0);
}

/// Another process has the store open meanwhile, and knows at once.
#[test]
fn who_has_the_store_open_knows_what_another_exempts() {
    let lab = Lab::new();
    let create = ["create", "store", "--capacity", "4000", "--fpr", "0.1"];
    lab.run(&create).expect(0);
    lab.run_on(&["add", "store"], &distinct_lines(3500))
        .expect(0);
    let wrong = lab.run_on(&["check", "store"], &absent(20_000)).expect(0);
    let wrong: Vec<&[u8]> = wrong.split_inclusive(|byte| *byte == b'\n').collect();
    // One line in eighty is taken for seen, whichever it is: this one is new for certain.
    let new = absent(20_000);
    let mut new = new.split_inclusive(|byte| *byte == b'\n');
    let new = new.find(|line| !wrong.contains(line)).unwrap();
    let mut child = lab.start(&["dedup", "store"]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut answer = |lines: &[&[u8]]| {
        input.write_all(&lines.concat()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line.into_bytes()
    };
    // What it takes for seen it does not print; what comes behind it does.
    assert_eq!(answer(&[wrong[0], new]), new);
    lab.run_on(&["exempt", "store"], &wrong[..2].concat())
        .expect(0);
    assert_eq!(answer(&[wrong[0]]), wrong[0]);
    assert_eq!(answer(&[wrong[0], wrong[2], wrong[1]]), wrong[1]);
    drop(input);
    assert!(child.wait().unwrap().success());
    let info = lab.run(&["info", "store", "--json"]).expect(0);
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    assert_eq!(info["exempt"], 0);
}
