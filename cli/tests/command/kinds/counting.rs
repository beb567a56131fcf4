//! Stores of kind counting: `create --kind counting`, `add`, `remove`, `dedup`.

use crate::support::{Lab, assert_fields, json};

#[test]
fn what_was_added_can_be_removed() {
    let lab = Lab::new();
    let create = ["create", "live", "--kind", "counting", "--capacity", "1000"];
    let ran = lab.run(&create);
    assert!(ran.err.contains("counting, 1,000 keys"), "{}", ran.err);
    let ran = lab.run_on(&["add", "--stats", "live"], b"a\nb\nb\nc\n");
    assert!(ran.err.contains("4 lines, 3 new"), "{}", ran.err);
    let ran = lab.run_on(&["remove", "live"], b"a\nb\nnever\n");
    assert!(
        ran.err.contains("3 lines, 2 removed, 1 absent"),
        "{}",
        ran.err
    );
    assert!(ran.expect(0).is_empty());
    // One that was added twice is there until it has been removed twice.
    assert_eq!(
        lab.run_on(&["check", "live"], b"a\nb\nc\n").expect(0),
        b"b\nc\n"
    );
    lab.run_on(&["remove", "live"], b"b\n").expect(0);
    assert_eq!(
        lab.run_on(&["check", "live"], b"a\nb\nc\n").expect(0),
        b"c\n"
    );
    let info = json(&lab.run(&["info", "--json", "live"]).expect(0));
    assert_eq!(
        (info["kind"].as_str(), info["keys"].as_u64()),
        (Some("counting"), Some(1))
    );
    lab.run(&["verify", "live"]).expect(0);
}

#[test]
fn a_set_counts_each_line_once() {
    let lab = Lab::new();
    lab.run(&["create", "set", "--kind", "counting", "--capacity", "1000"])
        .expect(0);
    assert_eq!(
        lab.run_on(&["dedup", "set"], b"a\na\nb\na\n").expect(0),
        b"a\nb\n"
    );
    lab.run_on(&["add", "--unique", "set"], b"b\nc\nc\n")
        .expect(0);
    lab.run_on(&["remove", "set"], b"a\nb\nc\n").expect(0);
    assert_eq!(lab.run_on(&["check", "set"], b"a\nb\nc\n").expect(1), b"");
    // A file of 4 bits for each counter, where a filter of bits has one.
    let plan = |kind| {
        let plan = [
            "plan",
            "--capacity",
            "1M",
            "--fpr",
            "1e-4",
            "--json",
            "--kind",
            kind,
        ];
        json(&lab.run(&plan).expect(0))
    };
    let (bits, counters) = (plan("bloom"), plan("counting"));
    assert_fields(
        &counters,
        &[
            "capacity",
            "fpr",
            "bits",
            "bits_per_key",
            "k",
            "pages",
            "bytes",
        ],
    );
    let times = counters["bytes"].as_f64().unwrap() / bits["bytes"].as_f64().unwrap();
    assert!((4.0..4.3).contains(&times), "{times}");
}

#[test]
fn what_can_not_be_is_refused_with_the_reason() {
    let lab = Lab::new();
    lab.run(&["create", "grows", "--kind", "scalable"])
        .expect(0);
    lab.run_on(&["remove", "grows"], b"a\n").expect_error(
        "is of kind scalable; only a store of kind counting or fingerprint can remove keys",
    );
    lab.run(&["create", "no", "--kind", "counting"])
        .expect_error(
        "--kind counting needs --capacity N, since it can't grow: removing a key from the wrong layer would damage others",
    );
    lab.run(&[
        "create",
        "no",
        "--kind",
        "counting",
        "--capacity",
        "10",
        "--transactional",
    ])
    .expect_error("no for kind counting");
}
